#include "models/quantize_gguf.hpp"

#include "base/file.hpp"
#include "gpu/gguf_blocks.hpp"
#include "gpu/gguf_encode.hpp"
#include "gpu/shares.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/gguf_files.hpp"
#include "models/checkpoint/gguf_numbers.hpp"
#include "models/checkpoint/gguf_of_folder.hpp"
#include "models/checkpoint/gguf_source.hpp"
#include "models/checkpoint/gguf_writer.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace paceline::models {
namespace {

/// Numbers that are encoded at a time.
constexpr std::int64_t numbers_at_once = 1 << 22;
/// The version of the blocks' layouts, which readers of files want to know.
constexpr std::uint32_t layout_version = 2;

/// Returns the blocks of a format that floats can become; none: it is not one of these.
std::optional<gpu::GgufFormat> encoded_format(WeightFormat format) {
  for (const gpu::GgufFormat each : gpu::encoded_gguf_formats)
    if (gpu::weight_format(each) == format)
      return each;
  return {};
}

Result<gpu::GgufFormat> wanted_format(WeightFormat format) {
  if (const auto own = encoded_format(format))
    return *own;
  std::vector<const char*> known;
  for (const gpu::GgufFormat each : gpu::encoded_gguf_formats)
    known.push_back(gpu::to_string(each));
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is not written to GGUF files", to_string(format)),
              fmt::format("give one of {}, or a folder to write", fmt::join(known, ", ")));
}

/// Returns the number that files have for the format of most of their matrices
/// (general.file_type).
std::uint32_t file_type(gpu::GgufFormat format) {
  switch (format) {
  case gpu::GgufFormat::q4_0: return 2;
  case gpu::GgufFormat::q5_0: return 8;
  case gpu::GgufFormat::q4_k: return 14;
  case gpu::GgufFormat::mxfp4: return 38;
  default: return 7; // q8_0
  }
}

/// Returns the format for rows of so many numbers; none: they fill the blocks of none.
std::optional<gpu::GgufFormat> fitting(gpu::GgufFormat wanted, std::int64_t cols) {
  const auto fits = [&](gpu::GgufFormat format) { return cols % gpu::block_elements(format) == 0; };
  if (fits(wanted))
    return wanted;
  return fits(gpu::GgufFormat::q5_0) ? std::optional(gpu::GgufFormat::q5_0) : std::nullopt;
}

/// Rounds whole blocks, and says what that changed; `largest` is NaN if a number is not finite.
QuantizationError encode_blocks(gpu::GgufFormat format, ScaleChoice scales,
                                std::span<const float> values, std::byte* blocks) {
  QuantizationError error;
  const auto each = std::size_t(gpu::block_elements(format));
  std::vector<float> rounded(each);
  for (std::size_t at = 0; at < values.size(); at += each, blocks += gpu::block_bytes(format)) {
    const auto own = values.subspan(at, each);
    if (std::ranges::all_of(own, [](float value) { return std::isfinite(value); })) {
      gpu::encode_block(format, scales, own.data(), blocks);
      gpu::decode_block(format, blocks, rounded.data());
    }
    for (std::size_t i = 0; i < each; ++i)
      error.add(own[i], rounded[i]);
    if (!std::isfinite(error.squared) || !std::isfinite(error.squared_size))
      error.largest = std::numeric_limits<float>::quiet_NaN();
  }
  return error;
}

class GgufQuantizer {
public:
  GgufQuantizer(const std::string& location, GgufContents contents, gpu::GgufFormat blocks,
                gpu::GgufFormat tables, const QuantizeOptions& options)
      : location_(location), contents_(std::move(contents)), blocks_(blocks), tables_(tables),
        options_(options) {}

  Result<QuantizationReport> write(const std::string& path) {
    plan();
    auto file = GgufFileWriter::create(path, contents_.metadata, plans_);
    if (!file)
      return tl::unexpected(file.error());
    auto done =
        write_all(*file, false)
            .and_then([&] { return contents_.check ? contents_.check(path) : Result<void>(); })
            .and_then([&] { return write_all(*file, true); })
            .and_then([&] { return file->close(); });
    if (!done)
      return tl::unexpected(done.error());
    for (auto& [name, kind] : kinds_)
      report_.kinds.push_back(std::move(kind));
    return std::move(report_);
  }

private:
  void plan() {
    contents_.metadata.put("general.file_type", file_type(blocks_));
    contents_.metadata.put("general.quantization_version", layout_version);
    for (const PlacedTensor& tensor : contents_.tensors) {
      plans_.push_back({tensor.name, type_for(tensor), tensor.shape});
      report_.bytes_before += GgufTensorPlan{tensor.name, tensor.type, tensor.shape}.bytes();
      report_.bytes_after += plans_.back().bytes();
    }
  }

  GgufType type_for(const PlacedTensor& tensor) const {
    const bool plain = std::holds_alternative<gpu::DType>(tensor.type);
    if (!is_matrix(tensor.name, tensor.shape))
      return plain ? gpu::DType::f32 : tensor.type;
    const ModelPart part = gguf_part_of(tensor.name);
    const bool table = part == ModelPart::embedding || part == ModelPart::head;
    const auto format = fitting(table ? tables_ : blocks_, tensor.shape.back());
    const GgufTensorPlan now{tensor.name, tensor.type, tensor.shape};
    const GgufTensorPlan plan{tensor.name, format ? GgufType(*format) : tensor.type, tensor.shape};
    return tensor.type == GgufType(gpu::GgufFormat::nvfp4) || plan.bytes() >= now.bytes()
               ? tensor.type
               : plan.type;
  }

  /// Writes the matrices, or everything else.
  Result<void> write_all(GgufFileWriter& file, bool matrices) {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      const PlacedTensor& tensor = contents_.tensors[i];
      if (is_matrix(tensor.name, tensor.shape) != matrices)
        continue;
      if (auto done = write_tensor(file, tensor, plans_[i].type); !done)
        return done;
      if (matrices) // which lie in mapped files
        for (const auto& part : tensor.parts)
          release_pages(part);
    }
    return {};
  }

  Result<void> write_tensor(GgufFileWriter& file, const PlacedTensor& tensor, GgufType type) {
    const GgufRows rows(tensor);
    const bool as_stored = type == tensor.type && tensor.change == NumberChange::none;
    const auto at_once = std::clamp<std::int64_t>(numbers_at_once / rows.cols(), 1, rows.rows());
    if (const auto* format = std::get_if<gpu::GgufFormat>(&type); format && !as_stored)
      begin_kind(tensor, *format);
    for (std::int64_t first = 0; first < rows.rows(); first += at_once) {
      const std::int64_t count = std::min(at_once, rows.rows() - first);
      std::vector<std::byte> bytes = rows.take(first, count);
      const std::size_t read = bytes.size();
      auto converted = as_stored ? Result<std::vector<std::byte>>(std::move(bytes))
                                 : convert(tensor, type, bytes, first, count, rows.cols());
      if (!converted)
        return tl::unexpected(converted.error());
      const std::size_t row = converted->size() / std::size_t(count);
      auto done = file.write(tensor.name, std::size_t(first) * row, *converted).and_then([&] {
        return go_on(read);
      });
      if (!done)
        return done;
    }
    return {};
  }

  /// Converts rows to f32 or to blocks.
  Result<std::vector<std::byte>> convert(const PlacedTensor& tensor, GgufType type,
                                         const std::vector<std::byte>& rows, std::int64_t first,
                                         std::int64_t count, std::int64_t cols) {
    auto values = std::vector<float>(std::size_t(count * cols));
    decode(tensor.type, rows.data(), values.size(), values.data());
    if (tensor.change != NumberChange::none)
      for (float& value : values)
        value = tensor.change == NumberChange::plus_one ? value + 1 : -std::exp(value);
    const auto* format = std::get_if<gpu::GgufFormat>(&type);
    if (!format) {
      const auto bytes = std::as_bytes(std::span(values));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    }
    const std::size_t row =
        std::size_t(cols / gpu::block_elements(*format)) * gpu::block_bytes(*format);
    auto out = std::vector<std::byte>(std::size_t(count) * row);
    auto errors = std::vector<QuantizationError>(std::size_t(count));
    gpu::for_shares(int(count), rows.size(), [&](int begin, int end) {
      for (auto r = std::size_t(begin); r < std::size_t(end); ++r)
        errors[r] =
            encode_blocks(*format, options_.blocks.scales,
                          std::span(values).subspan(r * std::size_t(cols), std::size_t(cols)),
                          out.data() + r * row);
    });
    return add_errors_of(tensor, errors, first).map([&] { return std::move(out); });
  }

  /// Finds the entry of the report for matrices of this name and format, and counts one.
  void begin_kind(const PlacedTensor& tensor, gpu::GgufFormat format) {
    const std::string name = tensor.name.substr(0, tensor.name.rfind('.'));
    const std::string last = name.substr(name.rfind('.') + 1);
    kind_ = &kinds_[last + " " + gpu::to_string(format)];
    kind_->name = last;
    kind_->format = *gpu::weight_format(format);
    ++kind_->matrices;
    kind_->bytes += GgufTensorPlan{tensor.name, format, tensor.shape}.bytes();
  }

  Result<void> add_errors_of(const PlacedTensor& tensor,
                             const std::vector<QuantizationError>& errors, std::int64_t first) {
    for (std::size_t r = 0; r < errors.size(); ++r) {
      if (std::isnan(errors[r].largest))
        return fail(ErrorCode::corrupt,
                    fmt::format("{}: tensor {} holds a number that is not finite in row {}",
                                text::shown_path(location_), text::shown(tensor.name),
                                first + std::int64_t(r)),
                    "the file is damaged; download it again");
      kind_->error.add(errors[r]);
    }
    return {};
  }

  /// Counts bytes of the source as done, and looks whether to stop.
  Result<void> go_on(std::size_t bytes) {
    done_ += bytes;
    return check_progress(options_, done_, report_.bytes_before);
  }

  const std::string& location_;
  GgufContents contents_;
  gpu::GgufFormat blocks_;
  gpu::GgufFormat tables_; ///< Of the embedding and the output head.
  const QuantizeOptions& options_;
  std::vector<GgufTensorPlan> plans_; ///< As `contents_.tensors`.
  std::map<std::string, QuantizedKind> kinds_;
  QuantizedKind* kind_ = nullptr; ///< The one that is being written.
  QuantizationReport report_;
  std::uint64_t done_ = 0;
};

/// Returns whether a key says how the file was made, or how it lies on the disk.
bool is_of_file(std::string_view key) {
  constexpr std::string_view beginnings[] = {"split.", "quantize.", "general.alignment"};
  return std::ranges::any_of(beginnings,
                             [&](std::string_view own) { return key.starts_with(own); });
}

/// Returns all of a file, or of the parts that one begins, but how it was made and how it lies on
/// the disk.
GgufContents contents_of(std::shared_ptr<const GgufFiles> files) {
  GgufContents out;
  for (const auto& [key, value] : files->metadata())
    if (!is_of_file(key))
      out.metadata.put(key, value);
  for (const auto& [name, tensor] : files->tensors())
    out.tensors.push_back({name, tensor.stored.shape, tensor.stored.type, {tensor.stored.bytes}});
  out.files.push_back(std::move(files));
  return out;
}

Result<GgufContents> contents_at(const std::string& location) {
  return find_gguf(location).and_then([&](const std::optional<std::string>& file) {
    return file ? GgufFiles::open(*file).map(contents_of) : gguf_of_folder(location);
  });
}

} // namespace

Result<QuantizationReport> quantize_to_gguf(const std::string& location, const std::string& path,
                                            const QuantizeOptions& options) {
  const auto blocks = wanted_format(options.blocks.format);
  const auto tables = options.head ? wanted_format(options.head->format)
                                   : Result<gpu::GgufFormat>(gpu::GgufFormat::q8_0);
  if (!blocks || !tables)
    return tl::unexpected(blocks ? tables.error() : blocks.error());
  auto contents = contents_at(location);
  if (!contents)
    return tl::unexpected(contents.error());
  GgufQuantizer quantizer(location, std::move(*contents), *blocks, *tables, options);
  Result<QuantizationReport> report;
  const auto written = base::write_new_file(path, [&](const std::string& file) -> Result<void> {
    report = quantizer.write(file);
    return report ? Result<void>() : tl::unexpected(report.error());
  });
  if (!written)
    return tl::unexpected(written.error());
  return report;
}

} // namespace paceline::models
