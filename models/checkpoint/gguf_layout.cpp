#include "models/checkpoint/gguf_layout.hpp"

namespace paceline::models {

std::vector<int> every(int first, int step, int count) {
  std::vector<int> out(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    out[std::size_t(i)] = first + step * i;
  return out;
}

std::vector<int> heads_apart(const gpu::Recurrence& rule, int before, int item) {
  std::vector<int> out = every(0, 1, before);
  const int each = rule.value_heads / rule.key_heads;
  for (int i = 0; i < each; ++i)
    for (int key_head = 0; key_head < rule.key_heads; ++key_head)
      for (int at = 0; at < item; ++at)
        out.push_back(before + (key_head * each + i) * item + at);
  return out;
}

/// The norm behind a sum becomes a row for each key head. What these do not divide keeps its
/// numbers, and is found to be too large.
std::vector<std::int64_t> shape_in_gguf(TensorRole role, std::vector<std::int64_t> shape,
                                        const ModelConfig& config) {
  const bool sums = config.recurrence && config.recurrence->sums();
  if (role == TensorRole::kernel && shape.size() == 3)
    shape.erase(shape.begin() + 1);
  if (role == TensorRole::shared_gate && shape.size() == 2)
    shape.erase(shape.begin());
  if (sums && (role == TensorRole::speed || role == TensorRole::skip))
    shape.push_back(1);
  if (sums && role == TensorRole::recurrence_norm) {
    const std::int64_t groups = config.recurrence->rule.key_heads;
    if (shape.front() % groups == 0)
      shape.front() /= groups;
    shape.insert(shape.begin(), groups);
  }
  return shape;
}

} // namespace paceline::models
