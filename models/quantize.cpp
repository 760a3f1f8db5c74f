#include "models/quantize.hpp"

#include "base/file.hpp"
#include "gpu/mx.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/folder_tensors.hpp"
#include "models/checkpoint/safetensors_writer.hpp"
#include "models/families.hpp"
#include "models/quantize_gguf.hpp"
#include "models/synthetic/scripted.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <utility>

namespace paceline::models {
namespace fs = std::filesystem;
namespace {

/// Amounts that are encoded, or copied, at a time.
constexpr int weights_at_once = 1 << 22;
constexpr std::size_t bytes_at_once = std::size_t(1) << 24;

/// A tensor of the result, and the one that it is made from.
struct Item {
  std::string name;
  const TensorEntry* from;
  std::optional<gpu::Quantization> as; ///< None: copied.
};

StoredType code_type(WeightFormat format) {
  switch (format) {
  case WeightFormat::mxfp8: return StoredType::f8_e4m3;
  case WeightFormat::mxfp8_e5m2: return StoredType::f8_e5m2;
  case WeightFormat::mxint8: return StoredType::i8;
  default: return StoredType::u8; // one byte holds several codes
  }
}

std::string scale_name(const std::string& weight) {
  return weight + "_scale";
}

/// Returns the tensors of one file of the result, for a file of the source.
std::vector<TensorPlan> plan_of(const std::vector<Item>& items) {
  std::vector<TensorPlan> plan;
  for (const Item& item : items) {
    if (!item.as) {
      plan.push_back({item.name, item.from->type, item.from->shape});
      continue;
    }
    const std::int64_t rows = item.from->shape[0];
    const std::int64_t cols = item.from->shape[1];
    plan.push_back({item.name,
                    code_type(item.as->format),
                    {rows, std::int64_t(code_row_bytes(item.as->format, int(cols)))}});
    plan.push_back({scale_name(item.name), StoredType::u8, {rows, gpu::blocks_of(int(cols))}});
  }
  return plan;
}

Result<void> write_text(const fs::path& path, const std::string& contents) {
  std::ofstream out(path, std::ios::binary);
  out << contents << '\n';
  if (!out.flush())
    return fail(ErrorCode::unavailable, "cannot write " + text::shown_path(path.string()),
                "check its folder, its permissions and the free space");
  return {};
}

class Quantizer {
public:
  Quantizer(TensorFiles files, const QuantizeOptions& options, bool tied, const OuterNames& names)
      : files_(std::move(files)), options_(options), tied_(tied), head_(names.head + ".weight"),
        embedding_(names.embedding + ".weight") {}

  Result<QuantizationReport> write(const fs::path& folder) {
    plan();
    const std::vector<std::string> paths = files_.files();
    for (std::size_t i = 0; i < paths.size(); ++i)
      if (auto written = write_file(folder / fs::path(paths[i]).filename(), items_[i]); !written)
        return tl::unexpected(written.error());
    if (paths.size() > 1 || fs::path(paths[0]).filename() != "model.safetensors")
      if (auto written = write_index(folder); !written)
        return tl::unexpected(written.error());
    for (auto& [name, kind] : kinds_)
      report_.kinds.push_back(std::move(kind));
    return std::move(report_);
  }

private:
  void plan() {
    items_.resize(files_.files().size());
    for (const TensorFiles::Stored& tensor : files_.tensors()) {
      report_.bytes_before += tensor.entry->bytes.size();
      std::vector<Item>& items = items_[tensor.file];
      const std::string& name = tensor.entry->name;
      items.push_back({name, tensor.entry, format_for(*tensor.entry)});
      // A quantized head is no longer the embedding, so each of them needs a tensor of its own.
      if (options_.head && tied_ && name == embedding_ && !files_.has(head_))
        items.push_back({head_, tensor.entry, options_.head});
      if (options_.head && tied_ && name == head_ && !files_.has(embedding_))
        items.push_back({embedding_, tensor.entry, std::nullopt});
    }
  }

  std::optional<gpu::Quantization> format_for(const TensorEntry& entry) const {
    if (entry.shape.size() != 2)
      return {};
    if (entry.name == head_)
      return options_.head;
    return is_block_weight(entry.name) ? std::optional(options_.blocks) : std::nullopt;
  }

  Result<void> write_file(const fs::path& path, const std::vector<Item>& items) {
    const std::vector<TensorPlan> plan = plan_of(items);
    for (const TensorPlan& tensor : plan) {
      weight_map_[tensor.name] = path.filename().string();
      report_.bytes_after += tensor.bytes();
    }
    auto writer = SafetensorsWriter::create(path.string(), plan);
    if (!writer)
      return tl::unexpected(writer.error());
    for (const Item& item : items) {
      auto done = item.as ? quantize(*writer, item) : copy(*writer, item);
      if (!done)
        return done;
      files_.release(item.from->name);
    }
    return writer->close();
  }

  Result<void> copy(SafetensorsWriter& writer, const Item& item) {
    const std::span<const std::byte> bytes = item.from->bytes;
    for (std::size_t at = 0; at < bytes.size(); at += bytes_at_once) {
      const auto part = bytes.subspan(at, std::min(bytes_at_once, bytes.size() - at));
      if (auto done =
              writer.write(item.name, at, part).and_then([&] { return go_on(part.size()); });
          !done)
        return done;
    }
    return {};
  }

  Result<void> quantize(SafetensorsWriter& writer, const Item& item) {
    const int rows = int(item.from->shape[0]);
    const int cols = int(item.from->shape[1]);
    const auto matrix = files_.matrix(item.from->name, rows, cols);
    if (!matrix)
      return tl::unexpected(matrix.error());
    const int at_once = std::clamp(weights_at_once / std::max(cols, 1), 1, std::max(rows, 1));
    RowEncoder encoder(*item.as, cols, at_once);
    QuantizedKind& kind = kind_of(item);
    kind.bytes += std::size_t(rows) * (encoder.code_row() + encoder.scale_row());
    const std::size_t row_size = std::size_t(cols) * gpu::size_of(matrix->dtype);
    const auto* from = static_cast<const std::byte*>(matrix->data);
    for (int first = 0; first < rows; first += at_once) {
      const int count = std::min(at_once, rows - first);
      encoder.encode(matrix->dtype, from + std::size_t(first) * row_size, count);
      auto done = add_errors(kind, encoder, item, first, count)
                      .and_then([&] { return write_rows(writer, encoder, item, first, count); })
                      .and_then([&] { return go_on(std::size_t(count) * row_size); });
      if (!done)
        return done;
    }
    return {};
  }

  Result<void> add_errors(QuantizedKind& kind, const RowEncoder& encoder, const Item& item,
                          int first, int count) const {
    for (int r = 0; r < count; ++r) {
      if (std::isnan(encoder.error(r).largest))
        return files_.wrong(item.from->name,
                            fmt::format("holds a number that is not finite in row {}", first + r));
      kind.error.add(encoder.error(r));
    }
    return {};
  }

  static Result<void> write_rows(SafetensorsWriter& writer, const RowEncoder& encoder,
                                 const Item& item, int first, int count) {
    const auto at = std::size_t(first);
    return writer.write(item.name, at * encoder.code_row(), encoder.codes(count)).and_then([&] {
      return writer.write(scale_name(item.name), at * encoder.scale_row(), encoder.scales(count));
    });
  }

  /// Returns the entry of the report for layers of this name and format.
  QuantizedKind& kind_of(const Item& item) {
    std::string name = fs::path(item.name).stem().string(); // the name without ".weight"
    name = name.substr(name.rfind('.') + 1);
    QuantizedKind& kind = kinds_[name];
    kind.name = name;
    kind.format = item.as->format;
    ++kind.matrices;
    return kind;
  }

  /// Counts `bytes` of the source as done, and looks whether to stop.
  Result<void> go_on(std::size_t bytes) {
    done_ += bytes;
    return check_progress(options_, done_, report_.bytes_before);
  }

  Result<void> write_index(const fs::path& folder) const {
    boost::json::object map;
    for (const auto& [name, file] : weight_map_)
      map[name] = file;
    const boost::json::object index{{"metadata", {{"total_size", report_.bytes_after}}},
                                    {"weight_map", std::move(map)}};
    return write_text(folder / "model.safetensors.index.json", boost::json::serialize(index));
  }

  TensorFiles files_;
  const QuantizeOptions& options_;
  bool tied_;
  std::string head_; ///< What the folder calls the head, and the embedding:
  std::string embedding_;
  std::vector<std::vector<Item>> items_; ///< Items of each file.
  std::map<std::string, std::string> weight_map_;
  std::map<std::string, QuantizedKind> kinds_;
  QuantizationReport report_;
  std::uint64_t done_ = 0;
};

/// Returns whether a file is copied. Weights in any format, and their indexes, are not; neither are
/// folders and hidden files.
bool goes_along(const fs::directory_entry& file) {
  constexpr std::string_view others[] = {".safetensors", ".index.json", ".bin", ".pt",
                                         ".pth",         ".gguf",       ".h5",  ".msgpack"};
  const std::string name = file.path().filename().string();
  std::error_code ignored;
  return file.is_regular_file(ignored) && !name.starts_with('.') && name != "config.json" &&
         std::none_of(std::begin(others), std::end(others),
                      [&](std::string_view ending) { return name.ends_with(ending); });
}

Result<void> copy_others(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  for (fs::directory_iterator at(from, failed), end; !failed && at != end; at.increment(failed))
    if (goes_along(*at) && !fs::copy_file(at->path(), to / at->path().filename(), failed))
      break;
  if (failed)
    return fail(ErrorCode::unavailable,
                fmt::format("cannot copy {} to {} ({})", text::shown_path(from.string()),
                            text::shown_path(to.string()), failed.message()),
                "check the folders, their permissions and the free space");
  return {};
}

/// Returns the names in a block of layers that stay as they are: those that choose experts.
std::vector<std::string> unquantized_in(const ModelConfig& config) {
  const BlockTensors& names = family_of(config.architecture).tensors;
  std::vector<std::string> out;
  if (config.mixture)
    out.emplace_back(names.router);
  if (config.mixture && config.mixture->shared_gate)
    out.emplace_back(names.shared_gate);
  return out;
}

Result<void> write_config(const fs::path& from, const fs::path& to, const QuantizeOptions& options,
                          const std::string& head, const std::vector<std::string>& plain) {
  auto config = read_json_object((from / "config.json").string());
  if (!config)
    return tl::unexpected(config.error());
  (*config)["quantization_config"] = quantization_config(options.blocks, options.head, head, plain);
  if (options.head)
    (*config)["tie_word_embeddings"] = false;
  return write_text(to / "config.json", boost::json::serialize(*config));
}

/// Refuses formats that only a GGUF file can have.
Result<void> check_formats(const QuantizeOptions& options) {
  for (const auto& wanted : {std::optional(options.blocks), options.head})
    if (wanted && !gpu::is_mx(wanted->format))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} is not written to folders", to_string(wanted->format)),
                  "name a file to write that ends with .gguf");
  return {};
}

} // namespace

Result<QuantizationReport> quantize_checkpoint(const std::string& location, const std::string& path,
                                               const QuantizeOptions& options) {
  if (is_scripted(location))
    return fail(ErrorCode::unsupported, "a scripted model has no weights to quantize",
                "give the folder of a checkpoint");
  if (path.ends_with(".gguf"))
    return quantize_to_gguf(location, path, options);
  const auto config = FolderSource(location).config();
  if (!config)
    return tl::unexpected(config.error());
  if (!config->quantization.method.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is quantized already (by {})", text::shown_path(location),
                            config->quantization.method),
                "give the original, whose weights are BF16, F16 or F32");
  if (auto checked = check_formats(options); !checked)
    return tl::unexpected(checked.error());
  const Family& family = family_of(config->architecture);
  if (family.tensors.transposed)
    return fail(ErrorCode::unsupported,
                fmt::format("{}: {} has matrices whose rows are inputs, along which blocks lie",
                            text::shown_path(location), config->architecture),
                "quantize it while it is loaded, with --weights");
  auto files = TensorFiles::open(location);
  if (!files)
    return tl::unexpected(files.error());
  for (const TensorFiles::Stored& tensor : files->tensors())
    if (tensor.entry->shape.size() > 2 && !is_convolution(tensor.entry->name) &&
        !is_computed(tensor.entry->name))
      return fail(ErrorCode::unsupported,
                  fmt::format("{}: tensor {} has the matrices of all experts in one",
                              text::shown_path(location), text::shown(tensor.entry->name)),
                  "quantize a checkpoint with a tensor for each expert, or this one while it is "
                  "loaded, with --weights");
  const std::vector<std::string> plain = unquantized_in(*config);
  const OuterNames names = OuterNames::of(names_in(*files, family));
  Quantizer quantizer(std::move(*files), options, config->tied_embedding, names);
  Result<QuantizationReport> report;
  const auto written = base::write_folder(path, [&](const std::string& folder) -> Result<void> {
    report = quantizer.write(folder);
    if (!report)
      return tl::unexpected(report.error());
    return copy_others(location, folder).and_then([&] {
      return write_config(location, folder, options, names.head, plain);
    });
  });
  if (!written)
    return tl::unexpected(written.error());
  return report;
}

} // namespace paceline::models
