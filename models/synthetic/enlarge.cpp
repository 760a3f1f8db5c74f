#include "models/synthetic/enlarge.hpp"

#include "base/bf16.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/tensor_files.hpp"
#include "models/config.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <span>
#include <vector>

namespace paceline::models {
namespace fs = std::filesystem;
namespace {

using base::bf16;

/// Feed-forward widths are whole multiples of this.
constexpr int ffn_step = 64;

Shape shape_of(const ModelConfig& c) {
  return {c.hidden,   c.layers, c.heads,      c.kv_heads,
          c.head_dim, c.ffn,    c.vocabulary, c.tied_embedding};
}

/// Makes random weights: of either sign, 2^-7 to 2^-5 in size. It is fast, and never gives
/// denormals.
class RandomWeights {
public:
  void fill(std::span<bf16> row) {
    const std::span<std::byte> bytes = std::as_writable_bytes(row);
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t bits = next();
      std::memcpy(bytes.data() + i, &bits, std::min(sizeof bits, bytes.size() - i));
    }
  }

private:
  std::uint64_t next() { // xorshift (Marsaglia 2003)
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return (state_ & 0x80FF'80FF'80FF'80FF) | 0x3C00'3C00'3C00'3C00;
  }
  std::uint64_t state_ = 0x9E37'79B9'7F4A'7C15;
};

/// What surrounds the original values in an enlarged matrix.
struct Surroundings {
  bool zero_columns = false; ///< The added columns of the original's rows are zero; else random.
  bool zero_rows = false;    ///< The added rows are zero; else random.
};

/// A tensor to write. cols = 0: it is a vector of `rows`.
struct Entry {
  std::string name;
  int rows = 0;
  int cols = 0;
  Surroundings around;
  /// False: the tensor is an added layer's, and nothing in it comes from the source.
  bool original = true;
  float factor = 1;      ///< Factor of a vector: a power of two.
  std::string from = {}; ///< Name in the source; empty: the same.

  const std::string& source() const { return from.empty() ? name : from; }

  std::size_t elements() const { return std::size_t(rows) * std::size_t(cols ? cols : 1); }
};

std::vector<Entry> layer_entries(const Shape& s, int layer, bool original, float factor) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const int queries = s.heads * s.head_dim;
  const int keys = s.kv_heads * s.head_dim;
  // Matrices that write to the residual stream add zero wherever the original does not.
  const Surroundings silent{true, true};
  const auto matrix = [&](const char* name, int rows, int cols, Surroundings around = {}) {
    return Entry{prefix + name + ".weight", rows, cols, around, original};
  };
  const auto norm = [&](const char* name) {
    return Entry{prefix + name + ".weight", s.hidden, 0, {}, original, factor};
  };
  std::vector<Entry> entries{norm("input_layernorm"),
                             matrix("self_attn.q_proj", queries, s.hidden),
                             matrix("self_attn.k_proj", keys, s.hidden),
                             matrix("self_attn.v_proj", keys, s.hidden),
                             matrix("self_attn.o_proj", s.hidden, queries, silent),
                             norm("post_attention_layernorm")};
  const Entry dense[] = {matrix("mlp.gate_proj", s.ffn, s.hidden),
                         matrix("mlp.up_proj", s.ffn, s.hidden),
                         matrix("mlp.down_proj", s.hidden, s.ffn, silent)};
  if (s.experts == 0) {
    entries.insert(entries.end(), std::begin(dense), std::end(dense));
    return entries;
  }
  Entry router = matrix("block_sparse_moe.gate", s.experts, s.hidden);
  router.original = false;
  entries.push_back(router);
  constexpr const char* in_expert[] = {"w1", "w3", "w2"};
  for (int e = 0; e < s.experts; ++e)
    for (std::size_t i = 0; i < std::size(dense); ++i) {
      Entry& part = entries.emplace_back(dense[i]);
      part.from = part.name;
      part.name = fmt::format("{}block_sparse_moe.experts.{}.{}.weight", prefix, e, in_expert[i]);
    }
  return entries;
}

std::vector<Entry> all_entries(const Shape& base, const Shape& s, float factor) {
  std::vector<Entry> entries{{"model.embed_tokens.weight", s.vocabulary, s.hidden, {true, true}}};
  for (int i = 0; i < s.layers; ++i)
    for (Entry& entry : layer_entries(s, i, i < base.layers, factor))
      entries.push_back(std::move(entry));
  entries.push_back({"model.norm.weight", s.hidden, 0, {}, true, factor});
  if (!s.tied)
    entries.push_back({"lm_head.weight", s.vocabulary, s.hidden, {}});
  return entries;
}

/// Returns the rows, and in `cols` the columns, of an entry's tensor in the source.
int original_rows(const Entry& entry, const std::vector<Entry>& sources, int& cols) {
  const auto at = std::find_if(sources.begin(), sources.end(),
                               [&](const Entry& source) { return source.name == entry.source(); });
  cols = at->cols;
  return at->rows;
}

class Writer {
public:
  Writer(TensorFiles source, std::vector<Entry> sources, const std::string& path,
         const ProgressCallback& progress)
      : source_(std::move(source)), sources_(std::move(sources)), path_(path),
        out_(path, std::ios::binary), progress_(progress) {}

  Result<void> write(const std::vector<Entry>& entries) {
    write_header(entries);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      auto written = entries[i].cols ? write_matrix(entries[i]) : write_vector(entries[i]);
      if (!written)
        return written;
      if (!out_.flush())
        return fail(ErrorCode::unavailable, "cannot write " + text::shown_path(path_),
                    "free room on that disk, or set TMPDIR to a folder on another");
      if (progress_)
        progress_("writing weights", double(i + 1) / double(entries.size()));
    }
    return {};
  }

private:
  void write_header(const std::vector<Entry>& entries) {
    boost::json::object header;
    std::size_t begin = 0;
    for (const Entry& entry : entries) {
      boost::json::array shape{entry.rows};
      if (entry.cols)
        shape.push_back(entry.cols);
      const std::size_t end = begin + entry.elements() * sizeof(bf16);
      header[entry.name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {begin, end}}};
      begin = end;
    }
    std::string text = boost::json::serialize(header);
    text.resize((text.size() + 63) / 64 * 64, ' ');
    const std::uint64_t size = text.size();
    out_.write(reinterpret_cast<const char*>(&size), sizeof size);
    out_ << text;
  }

  Result<void> write_matrix(const Entry& entry) {
    int rows = 0;
    int cols = 0;
    const bf16* original = nullptr;
    if (entry.original) {
      rows = original_rows(entry, sources_, cols);
      const auto matrix = source_.matrix(entry.source(), rows, cols);
      if (!matrix)
        return tl::unexpected(matrix.error());
      original = static_cast<const bf16*>(matrix->data);
    }
    std::vector<bf16> row(std::size_t(entry.cols));
    for (int r = 0; r < entry.rows; ++r) {
      const bool zero = r < rows ? entry.around.zero_columns : entry.around.zero_rows;
      zero ? std::fill(row.begin(), row.end(), bf16{}) : random_.fill(row);
      if (r < rows)
        std::copy_n(original + std::size_t(r) * std::size_t(cols), cols, row.begin());
      put(row);
    }
    return {};
  }

  Result<void> write_vector(const Entry& entry) {
    std::vector<bf16> values(std::size_t(entry.rows), base::to_bf16(entry.factor));
    if (entry.original) {
      int cols = 0;
      const auto original = source_.vector(entry.source(), original_rows(entry, sources_, cols));
      if (!original)
        return tl::unexpected(original.error());
      std::transform(original->begin(), original->end(), values.begin(),
                     [&](float value) { return base::to_bf16(value * entry.factor); });
    }
    put(values);
    return {};
  }

  void put(std::span<const bf16> values) {
    out_.write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size_bytes()));
  }

  TensorFiles source_;
  const std::vector<Entry> sources_;
  const std::string path_;
  std::ofstream out_;
  const ProgressCallback& progress_;
  RandomWeights random_;
};

/// Writes config.json with the new sizes, and copies the files that stay as they are.
Result<void> write_others(const fs::path& source, const fs::path& target, const Shape& s,
                          double epsilon) {
  auto config = read_json_object((source / "config.json").string());
  if (!config)
    return tl::unexpected(config.error());
  (*config)["hidden_size"] = s.hidden;
  (*config)["intermediate_size"] = s.ffn;
  (*config)["num_hidden_layers"] = s.layers;
  (*config)["num_attention_heads"] = s.heads;
  (*config)["num_key_value_heads"] = s.kv_heads;
  (*config)["head_dim"] = s.head_dim;
  (*config)["rms_norm_eps"] = epsilon;
  if (s.experts > 0) {
    (*config)["architectures"] = {"MixtralForCausalLM"};
    (*config)["model_type"] = "mixtral";
    (*config)["num_local_experts"] = s.experts;
    (*config)["num_experts_per_tok"] = scaled_top_k;
    config->emplace("rope_theta", 10'000); // Mixtral's own default is another.
  }
  std::ofstream(target / "config.json") << boost::json::serialize(*config);
  std::error_code failed;
  for (const auto& file : fs::directory_iterator(source, failed)) {
    const fs::path name = file.path().filename();
    if (name.extension() == ".json" && name != "config.json" && !failed)
      fs::copy_file(file.path(), target / name, failed);
  }
  if (failed)
    return fail(ErrorCode::unavailable,
                fmt::format("cannot copy {} to {}: {}", text::shown_path(source.string()),
                            text::shown_path(target.string()), failed.message()),
                "set TMPDIR to a folder that can be written");
  return {};
}

} // namespace

std::uint64_t Shape::layer_parameters() const {
  const auto attention = 2 * std::uint64_t(heads + kv_heads) * std::uint64_t(head_dim);
  const auto each = 3 * std::uint64_t(ffn);
  return std::uint64_t(hidden) *
         (attention + (experts > 0 ? std::uint64_t(experts) * (each + 1) : each));
}

std::uint64_t Shape::parameters() const {
  return (tied ? 1 : 2) * std::uint64_t(vocabulary) * std::uint64_t(hidden) +
         std::uint64_t(layers) * layer_parameters();
}

Result<Shape> enlarged_shape(const Shape& base, const Enlargement& wanted) {
  Shape shape = base;
  shape.experts = wanted.mixture ? scaled_experts : 0;
  const std::uint64_t parameters = wanted.parameters;
  if (parameters < shape.parameters())
    return fail(ErrorCode::invalid_argument,
                fmt::format("cannot scale a model of {:.1f} M parameters to {:.1f} M{}",
                            double(shape.parameters()) / 1e6, double(parameters) / 1e6,
                            wanted.mixture ? ", its experts counted" : ""),
                "give a larger size");
  for (Shape wider = shape;; shape = wider) {
    wider.hidden *= 4;
    wider.heads *= 4;
    wider.kv_heads *= 4;
    wider.ffn *= 4;
    if (wider.parameters() > parameters)
      break;
  }
  const auto for_layers = [&] {
    return double(parameters - shape.parameters()) +
           double(shape.layers) * double(shape.layer_parameters());
  };
  const double room = for_layers();
  shape.layers = std::max(shape.layers, int(room / double(shape.layer_parameters())));
  const double missing = room / shape.layers - double(shape.layer_parameters());
  const double step = 3.0 * shape.hidden * ffn_step * std::max(1, shape.experts);
  shape.ffn += std::max(0, int(missing / step)) * ffn_step;
  return shape;
}

Result<void> enlarge_checkpoint(const std::string& source, const std::string& target,
                                const Enlargement& wanted, const ProgressCallback& progress) {
  const auto config = FolderSource(source).config();
  if (!config)
    return tl::unexpected(config.error());
  auto checkpoint = TensorFiles::open(source);
  if (!checkpoint)
    return tl::unexpected(checkpoint.error());
  if (config->architecture != "LlamaForCausalLM" || checkpoint->dtype() != gpu::DType::bf16)
    return fail(ErrorCode::unsupported,
                fmt::format("cannot scale {}: it is {} in {}", text::shown_path(source),
                            text::shown(config->architecture), gpu::to_string(checkpoint->dtype())),
                "only LlamaForCausalLM in bf16, such as the demo pair, can be scaled");
  const Shape base = shape_of(*config);
  const auto shape = enlarged_shape(base, wanted);
  if (!shape)
    return tl::unexpected(shape.error());
  const double growth = double(shape->hidden) / base.hidden; // a power of four
  const float factor = float(1 / std::sqrt(growth));
  if (auto others = write_others(source, target, *shape, double(config->norm_epsilon) / growth);
      !others)
    return others;
  Writer writer(std::move(*checkpoint), all_entries(base, base, 1), target + "/model.safetensors",
                progress);
  return writer.write(all_entries(base, *shape, factor));
}

} // namespace paceline::models
