#include "models/checkpoint/quantized_weights.hpp"

#include "gpu/mx.hpp"
#include "gpu/shares.hpp"
#include "models/checkpoint/widen.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace paceline::models {
namespace {

/// Endings of the names of a layer's tensors.
constexpr const char* tensor_suffixes[] = {".weight", ".weight_packed", ".weight_scale",
                                           ".weight_scale_inv"};

std::string layer_of(std::string_view tensor) {
  return std::string(tensor.substr(0, tensor.rfind('.')));
}

const std::uint8_t* bytes_of(const TensorEntry& entry) {
  return reinterpret_cast<const std::uint8_t*>(entry.bytes.data());
}

/// Returns the number that each code of an FP8 element stands for.
std::array<float, 256> decoded(WeightFormat format) {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code)
    values[std::size_t(code)] = gpu::decode_element(gpu::element_of(format), std::uint8_t(code));
  return values;
}

/// Returns whether all codes of FP8 elements are finite numbers.
bool all_finite(WeightFormat format, const TensorEntry& codes) {
  const int largest = gpu::element_of(format).largest_code;
  std::atomic<bool> finite = true;
  constexpr int piece = 1 << 16;
  const int pieces = int((codes.bytes.size() + piece - 1) / piece);
  gpu::for_shares(pieces, codes.bytes.size(), [&](int begin, int end) {
    const auto first = std::size_t(begin) * piece;
    const auto last = std::min(std::size_t(end) * piece, codes.bytes.size());
    int most = 0;
    for (std::size_t i = first; i < last; ++i)
      most = std::max(most, bytes_of(codes)[i] & 0x7F);
    if (most > largest)
      finite = false;
  });
  return finite;
}

int divided_up(int value, int by) {
  return (value + by - 1) / by;
}

} // namespace

QuantizedWeights::QuantizedWeights(TensorFiles& files, StoredQuantization how)
    : files_(&files), how_(std::move(how)) {}

const TensorEntry* QuantizedWeights::codes_of(const std::string& layer) const {
  if (how_.method.empty())
    return nullptr;
  if (const TensorEntry* packed = files_->find(layer + ".weight_packed"))
    return packed;
  const TensorEntry* weight = files_->find(layer + ".weight");
  return weight && !dtype_of(weight->type) ? weight : nullptr;
}

bool QuantizedWeights::has(const std::string& layer) const {
  return codes_of(layer) != nullptr;
}

std::optional<WeightFormat> QuantizedWeights::block_format(const TensorEntry& codes) const {
  const std::string layer = layer_of(codes.name);
  if (codes.name.ends_with(".weight_packed") || codes.name.ends_with("_proj_blocks"))
    return codes.type == StoredType::u8 ? std::optional(WeightFormat::mxfp4) : std::nullopt;
  const TensorEntry* scale = files_->find(layer + ".weight_scale");
  const bool blocks = scale && !dtype_of(scale->type);
  switch (codes.type) {
  case StoredType::u8: return how_.format_of(layer);
  case StoredType::i8: return WeightFormat::mxint8;
  case StoredType::f8_e4m3: return blocks ? std::optional(WeightFormat::mxfp8) : std::nullopt;
  case StoredType::f8_e5m2: return blocks ? std::optional(WeightFormat::mxfp8_e5m2) : std::nullopt;
  default: return {};
  }
}

Result<gpu::HostMatrix> QuantizedWeights::matrix(const std::string& layer, int rows, int cols) {
  const TensorEntry& codes = *codes_of(layer);
  if (const auto format = block_format(codes))
    return blocks(codes, *format, rows, cols);
  if (codes.type == StoredType::f8_e4m3 || codes.type == StoredType::f8_e5m2)
    return scaled(codes, rows, cols);
  return files_->wrong(codes.name, fmt::format("is of {}, which {} here does not say how to read",
                                               to_string(codes.type), how_.method));
}

Result<gpu::HostMatrix> QuantizedWeights::blocks(const TensorEntry& codes, WeightFormat format,
                                                 int rows, int cols) {
  const int bits = gpu::element_bits(format);
  const std::int64_t in_row = gpu::blocks_of(cols);
  const auto taken = files_->take(codes.name, {rows, in_row * gpu::code_bytes(bits)},
                                  std::uint64_t(rows) * std::uint64_t(cols));
  if (!taken)
    return tl::unexpected(taken.error());
  const std::string name = layer_of(codes.name) + ".weight_scale";
  const auto scales = files_->take(name, {rows, in_row}, 0);
  if (!scales)
    return tl::unexpected(scales.error());
  if ((*scales)->type != StoredType::u8 && (*scales)->type != StoredType::f8_e8m0)
    return files_->wrong(name, fmt::format("is of {}, where exponents of a byte belong",
                                           to_string((*scales)->type)));
  const void* nan =
      std::memchr((*scales)->bytes.data(), gpu::mx_nan_scale, (*scales)->bytes.size());
  if (nan) {
    const auto at = static_cast<const std::byte*>(nan) - (*scales)->bytes.data();
    return files_->wrong(name, fmt::format("is NaN at [{}, {}]", at / in_row, at % in_row));
  }
  if (bits == 8 && !gpu::element_of(format).integer() && !all_finite(format, codes))
    return files_->wrong(codes.name, "holds a number that is not finite");
  gpu::HostMatrix out{gpu::DType::f32, codes.bytes.data(), rows, cols};
  out.quantization = gpu::Quantization{format};
  out.block_scales = bytes_of(**scales);
  out.file = &files_->file_of(codes.name);
  return out;
}

Result<QuantizedWeights::Scales> QuantizedWeights::scales(const std::string& layer, int rows,
                                                          int cols) const {
  const std::string inverse = layer + ".weight_scale_inv"; // Despite its name it is multiplied by.
  const std::string name = files_->has(inverse) ? inverse : layer + ".weight_scale";
  const TensorEntry* stored = files_->find(name);
  if (!stored)
    return files_->wrong(name, "is missing");
  Scales out{{}, how_.block_rows, how_.block_cols};
  std::vector<std::int64_t> shape = stored->shape;
  if (how_.block_rows > 0) {
    shape = {divided_up(rows, how_.block_rows), divided_up(cols, how_.block_cols)};
  } else if (stored->bytes.size() == size_of(stored->type)) {
    out.rows_each = rows;
    out.cols_each = cols;
  } else {
    out.rows_each = 1;
    out.cols_each = cols;
    shape =
        shape.size() == 1 ? std::vector<std::int64_t>{rows} : std::vector<std::int64_t>{rows, 1};
  }
  const auto entry = files_->take(name, shape, 0);
  if (!entry)
    return tl::unexpected(entry.error());
  auto values = files_->numbers(**entry);
  if (!values)
    return tl::unexpected(values.error());
  out.values = std::move(*values);
  for (const float scale : out.values)
    if (!std::isfinite(scale))
      return files_->wrong(name, "holds a scale that is not a finite number");
  return out;
}

Result<gpu::HostMatrix> QuantizedWeights::scaled(const TensorEntry& codes, int rows, int cols) {
  const WeightFormat format =
      codes.type == StoredType::f8_e4m3 ? WeightFormat::mxfp8 : WeightFormat::mxfp8_e5m2;
  const auto count = std::uint64_t(rows) * std::uint64_t(cols);
  const auto taken = files_->take(codes.name, {rows, cols}, count);
  if (!taken)
    return tl::unexpected(taken.error());
  const auto by = scales(layer_of(codes.name), rows, cols);
  if (!by)
    return tl::unexpected(by.error());
  if (!all_finite(format, codes))
    return files_->wrong(codes.name, "holds a number that is not finite");
  const auto numbers = decoded(format);
  const int across = divided_up(cols, by->cols_each);
  float* const out = kept_.emplace_back(std::make_unique_for_overwrite<float[]>(count)).get();
  gpu::for_shares(rows, count, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      const std::size_t at = std::size_t(row) * std::size_t(cols);
      const float* row_scales = by->values.data() + row / by->rows_each * across;
      for (int col = 0; col < cols; ++col)
        out[at + std::size_t(col)] =
            numbers[bytes_of(codes)[at + std::size_t(col)]] * row_scales[col / by->cols_each];
    }
  });
  return gpu::HostMatrix{gpu::DType::f32, out, rows, cols};
}

void QuantizedWeights::release(const std::string& layer) {
  if (how_.method.empty())
    return;
  for (const char* suffix : tensor_suffixes)
    files_->release(layer + suffix);
  kept_.clear();
}

bool QuantizedWeights::is_of_activations(std::string_view name) const {
  constexpr std::string_view endings[] = {".input_scale", ".output_scale", ".k_scale", ".v_scale",
                                          ".input_global_scale"};
  return how_.activations &&
         std::any_of(std::begin(endings), std::end(endings),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

std::string QuantizedWeights::format_name(const TensorEntry& entry) const {
  if (dtype_of(entry.type) || is_scale(entry.name))
    return "";
  if (const auto format = block_format(entry))
    return to_string(*format);
  std::string name = to_string(entry.type);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return name;
}

std::uint64_t QuantizedWeights::elements(const TensorEntry& entry) const {
  const auto format = block_format(entry);
  return entry.bytes.size() * 8 / std::uint64_t(format ? gpu::element_bits(*format) : 8);
}

} // namespace paceline::models
