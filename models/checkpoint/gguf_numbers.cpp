#include "models/checkpoint/gguf_numbers.hpp"

#include "gpu/gguf_blocks.hpp"
#include "models/checkpoint/widen.hpp"

#include <algorithm>
#include <cstring>

namespace paceline::models {

ModelPart gguf_part_of(std::string_view name) {
  const auto has = [name](std::string_view word) { return name.find(word) != name.npos; };
  if (has("norm"))
    return ModelPart::norms;
  if (has("token_embd") || has("position_embd") || has(".embed_tokens"))
    return ModelPart::embedding;
  if (name.starts_with("output.") || has(".shared_head_head"))
    return ModelPart::head;
  if (has(".attn_") || has(".ssm_") || has(".shortconv."))
    return ModelPart::attention;
  return has(".ffn_") || has(".exp_probs_b") || has(".inp_gate.") || has(".proj.")
             ? ModelPart::feed_forward
             : ModelPart::other;
}

bool is_matrix(std::string_view name, std::span<const std::int64_t> shape) {
  constexpr std::string_view plain[] = {".ffn_gate_inp.", ".ssm_conv1d.",  ".shortconv.conv.",
                                        ".ssm_a",         ".ssm_b",        ".ssm_d",
                                        "norm",           "position_embd."};
  const auto is = [&](std::string_view part) { return name.find(part) != name.npos; };
  return shape.size() == 3 ||
         (shape.size() == 2 && !name.ends_with(".bias") && std::ranges::none_of(plain, is));
}

void decode(GgufType type, const std::byte* from, std::size_t elements, float* to) {
  if (const auto* format = std::get_if<gpu::GgufFormat>(&type)) {
    const auto each = std::size_t(gpu::block_elements(*format));
    for (std::size_t at = 0; at < elements; at += each, from += gpu::block_bytes(*format))
      gpu::decode_block(*format, from, to + at);
    return;
  }
  const auto dtype = std::get<gpu::DType>(type);
  std::vector<float> aligned((elements * gpu::size_of(dtype) + sizeof(float) - 1) / sizeof(float));
  std::memcpy(aligned.data(), from, elements * gpu::size_of(dtype));
  std::ranges::copy(widen(dtype, aligned.data(), elements), to);
}

std::vector<float> values_of(const GgufTensor& tensor) {
  std::vector<float> out(tensor.elements());
  decode(tensor.type, tensor.bytes.data(), out.size(), out.data());
  return out;
}

} // namespace paceline::models
