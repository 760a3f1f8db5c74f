#include "models/packer.hpp"

#include "base/bf16.hpp"
#include "models/checkpoint/widen.hpp"

#include <fmt/format.h>

namespace paceline::models {
namespace {

/// Matrices of one pack in the model's dtype; owns what had to be converted.
class Converter {
public:
  explicit Converter(gpu::DType dtype) : dtype_(dtype) {}

  gpu::HostMatrix operator()(const gpu::HostMatrix& in) {
    if (in.dtype == dtype_)
      return in;
    const auto n = std::size_t(in.rows) * std::size_t(in.cols);
    wide_.push_back(widen(in.dtype, in.data, n));
    if (dtype_ == gpu::DType::f32)
      return {dtype_, wide_.back().data(), in.rows, in.cols};
    std::vector<base::bf16>& narrow = narrow_.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i)
      narrow[i] = base::to_bf16(wide_.back()[i]);
    wide_.pop_back();
    return {dtype_, narrow.data(), in.rows, in.cols};
  }

private:
  gpu::DType dtype_;
  std::vector<std::vector<float>> wide_;
  std::vector<std::vector<base::bf16>> narrow_;
};

/// What is quantized comes from the stored numbers, rounded once: what was stored in blocks stays
/// as it is. name: the tensor's.
Result<gpu::HostMatrix> in_format(const std::string& name, gpu::HostMatrix stored,
                                  const std::optional<gpu::Quantization>& wanted,
                                  Converter& convert) {
  if (stored.block_scales && wanted && wanted->format != stored.format())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is {} already, and would be rounded twice to become {}", name,
                            to_string(stored.format()), to_string(wanted->format)),
                "leave EngineOptions::weights, EngineOptions::draft_weights and "
                "EngineOptions::head_weights out, or load the original");
  if (stored.block_scales)
    return stored;
  if (!wanted)
    return convert(stored);
  stored.quantization = wanted;
  return stored;
}

} // namespace

std::shared_ptr<const gpu::Weight>
Packer::pack(const std::vector<LayerPart>& layers, int cols,
             const std::optional<gpu::Quantization>& quantization) {
  Converter convert(dtype_);
  std::vector<gpu::HostMatrix> parts;
  std::vector<std::vector<float>> biases;
  biases.reserve(layers.size());
  for (const LayerPart& part : layers) {
    auto matrix = keep(tensors_.matrix(part.key, part.rows, cols).and_then([&](auto stored) {
      return in_format(tensors_.name(part.key), stored, quantization, convert);
    }));
    if (!matrix || !alike(layers.front().key, parts, part.key, *matrix))
      return nullptr;
    parts.push_back(*matrix);
    if (!part.bias)
      continue;
    const auto bias = keep(tensors_.bias(part.key, part.rows));
    parts.back().bias = bias ? biases.emplace_back(*bias).data() : nullptr;
  }
  auto weight = keep(device_.pack(parts));
  for (const LayerPart& part : layers)
    tensors_.release(part.key);
  bytes_ += weight ? (*weight)->bytes() : 0;
  return weight.value_or(nullptr);
}

bool Packer::alike(TensorKey first, const std::vector<gpu::HostMatrix>& parts, TensorKey key,
                   const gpu::HostMatrix& matrix) {
  if (parts.empty() || parts.front().format() == matrix.format())
    return true;
  fail_with({ErrorCode::unsupported,
             fmt::format("{} is {}, and {}, which is read together with it, {}",
                         tensors_.name(first), to_string(parts.front().format()),
                         tensors_.name(key), to_string(matrix.format())),
             "load a checkpoint in which both are quantized alike"});
  return false;
}

std::shared_ptr<gpu::Buffer> Packer::norm(TensorKey key, int size, float plus) {
  if (!tensors_.has(key.role))
    return nullptr;
  auto values = keep(tensors_.norm(key, size));
  for (std::size_t i = 0; values && i < values->size(); ++i)
    (*values)[i] += plus;
  return values ? upload(*values) : nullptr;
}

std::shared_ptr<gpu::Buffer> Packer::upload(const std::vector<float>& values) {
  auto buffer = keep(device_.upload(values));
  bytes_ += buffer ? values.size() * sizeof(float) : 0;
  return buffer.value_or(nullptr);
}

} // namespace paceline::models
