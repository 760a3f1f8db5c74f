#include "models/packer.hpp"

#include "base/bf16.hpp"
#include "gpu/gguf_blocks.hpp"
#include "gpu/mx.hpp"
#include "gpu/shares.hpp"
#include "models/checkpoint/widen.hpp"

#include <cassert>
#include <cstring>
#include <fmt/format.h>

namespace paceline::models {
namespace {

/// Converts matrices of one pack to the model's dtype; owns the converted ones.
class Converter {
public:
  explicit Converter(gpu::DType dtype) : dtype_(dtype) {}

  gpu::HostMatrix operator()(const gpu::HostMatrix& in) {
    if (in.dtype == dtype_ || dtype_ == gpu::DType::f16) // An f32 matrix of f16 models stays exact.
      return in;
    const auto n = std::size_t(in.rows) * std::size_t(in.cols);
    if (in.dtype == gpu::DType::f32)
      return narrowed(in, static_cast<const float*>(in.data));
    wide_.push_back(widen(in.dtype, in.data, n));
    if (dtype_ == gpu::DType::f32)
      return {dtype_, wide_.back().data(), in.rows, in.cols};
    const gpu::HostMatrix out = narrowed(in, wide_.back().data());
    wide_.pop_back();
    return out;
  }

private:
  gpu::HostMatrix narrowed(const gpu::HostMatrix& in, const float* wide) {
    const auto cols = std::size_t(in.cols);
    const std::size_t n = std::size_t(in.rows) * cols;
    base::bf16* const out =
        narrow_.emplace_back(std::make_unique_for_overwrite<base::bf16[]>(n)).get();
    gpu::for_shares(in.rows, n * sizeof *out, [&](int begin, int end) {
      for (std::size_t i = std::size_t(begin) * cols; i < std::size_t(end) * cols; ++i)
        out[i] = base::to_bf16(wide[i]);
    });
    return {dtype_, out, in.rows, in.cols};
  }

  gpu::DType dtype_;
  std::vector<std::vector<float>> wide_;
  std::vector<std::unique_ptr<base::bf16[]>> narrow_;
};

/// Decodes blocks of GGUF files to f32, and owns the result.
class Decoder {
public:
  gpu::HostMatrix operator()(const gpu::HostMatrix& in) {
    const auto elements = std::size_t(gpu::block_elements(*in.blocks));
    const std::size_t bytes = gpu::block_bytes(*in.blocks);
    const std::size_t in_row = std::size_t(in.cols) / elements;
    const std::size_t n = std::size_t(in.rows) * std::size_t(in.cols);
    float* const out = decoded_.emplace_back(std::make_unique_for_overwrite<float[]>(n)).get();
    gpu::for_shares(in.rows, n * sizeof *out, [&](int begin, int end) {
      for (std::size_t i = std::size_t(begin) * in_row; i < std::size_t(end) * in_row; ++i)
        gpu::decode_block(*in.blocks, static_cast<const std::byte*>(in.data) + i * bytes,
                          out + i * elements);
    });
    return {gpu::DType::f32, out, in.rows, in.cols};
  }

private:
  std::vector<std::unique_ptr<float[]>> decoded_;
};

/// Takes parts of stored matrices; owns columns that had to be copied.
class Cutter {
public:
  gpu::HostMatrix operator()(const gpu::HostMatrix& all, Range rows,
                             const std::optional<Range>& cols) {
    gpu::HostMatrix out = all;
    out.rows = rows.count;
    out.data = bytes_of(all.data) + std::size_t(rows.first) * all.row_bytes();
    if (all.block_scales)
      out.block_scales += std::size_t(rows.first) * std::size_t(gpu::blocks_of(all.cols));
    return cols ? columns(out, *cols) : out;
  }

private:
  static const std::byte* bytes_of(const void* data) { return static_cast<const std::byte*>(data); }

  gpu::HostMatrix columns(gpu::HostMatrix m, Range cols) {
    assert(!m.block_scales || cols.first % gpu::mx_block == 0);
    m.data = take(bytes_of(m.data) + m.bytes_of(cols.first), m.rows, m.row_bytes(),
                  m.bytes_of(cols.count));
    if (m.block_scales)
      m.block_scales = reinterpret_cast<const std::uint8_t*>(
          take(bytes_of(m.block_scales) + gpu::blocks_of(cols.first), m.rows,
               std::size_t(gpu::blocks_of(m.cols)), std::size_t(gpu::blocks_of(cols.count))));
    m.cols = cols.count;
    m.file = nullptr; // the data is our copy
    return m;
  }

  /// Copies `width` bytes of each row from `from` on; a row is `stride` bytes long.
  const std::byte* take(const std::byte* from, int rows, std::size_t stride, std::size_t width) {
    const std::size_t bytes = std::size_t(rows) * width;
    std::byte* const out = taken_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
    gpu::for_shares(rows, bytes, [&](int begin, int end) {
      for (int row = begin; row < end; ++row)
        std::memcpy(out + std::size_t(row) * width, from + std::size_t(row) * stride, width);
    });
    return out;
  }

  std::vector<std::unique_ptr<std::byte[]>> taken_;
};

/// Puts a matrix into the wanted format. Quantization starts from the stored numbers, so it rounds
/// once; a matrix stored in blocks stays as it is. name: the tensor's.
Result<gpu::HostMatrix> in_format(const std::string& name, gpu::HostMatrix stored,
                                  const std::optional<gpu::Quantization>& wanted,
                                  Converter& convert) {
  if (stored.block_scales && wanted && wanted->format != stored.format())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is {} already, and would be rounded twice to become {}", name,
                            to_string(stored.format()), to_string(wanted->format)),
                "leave EngineOptions::weights, EngineOptions::draft_weights and "
                "EngineOptions::head_weights out, or load the original");
  if (stored.block_scales || stored.blocks)
    return stored;
  if (!wanted)
    return convert(stored);
  stored.quantization = wanted;
  return stored;
}

} // namespace

/// Returns whether GGUF blocks stay as they are: no other format may be wanted, the model not be
/// computed in f32, and a shard's columns must be whole blocks.
bool Packer::keeps(const gpu::HostMatrix& stored,
                   const std::optional<gpu::Quantization>& quantization,
                   const std::optional<Range>& own) const {
  return stored.blocks && !quantization && dtype_ == gpu::DType::bf16 &&
         (!own || own->count % gpu::block_elements(*stored.blocks) == 0);
}

std::shared_ptr<const gpu::Weight>
Packer::pack(const std::vector<LayerPart>& layers, int cols,
             const std::optional<gpu::Quantization>& quantization,
             const std::optional<Range>& own) {
  Converter convert(dtype_);
  Decoder decode;
  Cutter cut;
  std::vector<gpu::HostMatrix> parts;
  std::vector<std::vector<float>> biases;
  biases.reserve(layers.size());
  for (const LayerPart& part : layers) {
    auto stored = keep(tensors_.matrix(part.key, part.rows, cols));
    if (stored && stored->blocks && !keeps(*stored, quantization, own))
      stored = decode(*stored);
    const std::vector<float>* bias = nullptr;
    if (stored && part.bias)
      if (const auto values = keep(tensors_.bias(part.key, part.rows)))
        bias = &biases.emplace_back(*values);
    for (const Range& rows : part.own.empty() ? std::vector{Range{0, part.rows}} : part.own) {
      auto matrix = stored ? keep(in_format(tensors_.name(part.key), cut(*stored, rows, own),
                                            quantization, convert))
                           : std::nullopt;
      if (!matrix || !alike(layers.front().key, parts, part.key, *matrix))
        return nullptr;
      parts.push_back(*matrix);
      parts.back().int8_rows = int8_rows_;
      parts.back().bias = bias ? bias->data() + rows.first : nullptr;
    }
  }
  auto weight = keep(device_.pack(parts));
  for (const LayerPart& part : layers)
    tensors_.release(part.key);
  bytes_ += weight ? (*weight)->bytes() : 0;
  return weight.value_or(nullptr);
}

bool Packer::alike(TensorKey first, const std::vector<gpu::HostMatrix>& parts, TensorKey key,
                   const gpu::HostMatrix& matrix) {
  if (parts.empty() || parts.front().format() == matrix.format() || parts.front().blocks ||
      matrix.blocks)
    return true;
  fail_with({ErrorCode::unsupported,
             fmt::format("{} is {}, and {}, which is read together with it, {}",
                         tensors_.name(first), to_string(parts.front().format()),
                         tensors_.name(key), to_string(matrix.format())),
             "load a checkpoint in which both are quantized alike"});
  return false;
}

std::shared_ptr<gpu::Buffer> Packer::norm(TensorKey key, int size, float plus, float times) {
  if (!tensors_.has(key.role))
    return nullptr;
  auto values = keep(tensors_.vector(key, size));
  for (std::size_t i = 0; values && i < values->size(); ++i)
    (*values)[i] = ((*values)[i] + plus) * times;
  return values ? upload(*values) : nullptr;
}

std::shared_ptr<gpu::Buffer> Packer::layer_norm(TensorKey key, int size) {
  if (!tensors_.has(key.role))
    return nullptr;
  auto values = keep(tensors_.vector(key, size));
  const auto bias = values ? keep(tensors_.bias(key, size)) : std::nullopt;
  if (!bias)
    return nullptr;
  values->insert(values->end(), bias->begin(), bias->end());
  return upload(*values);
}

std::shared_ptr<gpu::Buffer> Packer::upload(const std::vector<float>& values) {
  auto buffer = keep(device_.upload(values));
  bytes_ += buffer ? values.size() * sizeof(float) : 0;
  return buffer.value_or(nullptr);
}

} // namespace paceline::models
