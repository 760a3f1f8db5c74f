#include "models/checkpoint/gguf_tensors.hpp"

#include "gpu/gguf_blocks.hpp"
#include "gpu/shares.hpp"
#include "models/checkpoint/gguf_architecture.hpp"
#include "models/checkpoint/gguf_names.hpp"
#include "models/checkpoint/gguf_numbers.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace paceline::models {
namespace {

constexpr std::string_view weight_ending = ".weight";
constexpr std::string_view bias_ending = ".bias";
constexpr const char* rotation_tables[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                           "rope_factors_short.weight"};
constexpr const char* torn_hint =
    "metadata and tensors do not belong together; download the file again";

const gpu::GgufFormat* format_in(const GgufTensor& tensor) {
  return std::get_if<gpu::GgufFormat>(&tensor.type);
}

/// Returns the matrix of an expert.
GgufTensor slice_of(const GgufTensor& all, int expert) {
  GgufTensor out = all;
  const std::size_t bytes = all.bytes.size() / std::size_t(all.shape.front());
  out.bytes = all.bytes.subspan(std::size_t(expert) * bytes, bytes);
  out.shape.erase(out.shape.begin());
  return out;
}

/// Returns whether both are there, with the same numbers.
bool same_bytes(const GgufTensor* a, const GgufTensor* b) {
  return a && b && a->type == b->type && a->shape == b->shape &&
         std::memcmp(a->bytes.data(), b->bytes.data(), a->bytes.size()) == 0;
}

/// Returns the alignment of the tensor's numbers, or of the halves of its blocks.
std::size_t alignment_of(const GgufTensor& tensor) {
  if (const auto* dtype = std::get_if<gpu::DType>(&tensor.type))
    return gpu::size_of(*dtype);
  const bool has_halves = gpu::block_bytes(*format_in(tensor)) % sizeof(gpu::gguf::half) == 0;
  return has_halves ? sizeof(gpu::gguf::half) : 1;
}

std::size_t row_bytes(const GgufTensor& tensor) {
  return tensor.bytes.size() / std::size_t(tensor.shape.front());
}

/// Calls fill(row, its bytes in the file) for every row, on all cores if there is enough to do.
template <class F>
void for_rows(const GgufTensor& tensor, const RowOrder& order, const F& fill) {
  const int rows = int(tensor.shape.front());
  const std::size_t stride = row_bytes(tensor);
  gpu::for_shares(rows, tensor.bytes.size(), [&](int begin, int end) {
    for (int row = begin; row < end; ++row)
      fill(row, tensor.bytes.data() + std::size_t(order.in_file(row)) * stride);
  });
}

} // namespace

GgufTensors::GgufTensors(std::shared_ptr<const GgufFiles> files, const ModelConfig& config,
                         GgufScope scope)
    : files_(std::move(files)), family_(family_of(config.architecture).tensors),
      experts_(config.mixture ? config.mixture->experts : 0),
      norm_parts_(config.recurrence && config.recurrence->sums() ? config.recurrence->rule.key_heads
                                                                 : 0),
      draft_block_(scope == GgufScope::draft_block ? config.layers : -1) {
  const auto architecture = gguf_architecture(*files_);
  names_.convolves = config.convolution.has_value();
  if (architecture) {
    names_.ffn_norm = (*architecture)->ffn_norm;
    names_.shared_expert = (*architecture)->shared_expert;
  }
  const HeadOrder heads{.neighbours = architecture && (*architecture)->neighbours};
  for (const TensorRole role : {TensorRole::query, TensorRole::key, TensorRole::query_key_value})
    orders_[role] = row_order(role, config, heads);
  for (const char* table : rotation_tables) // already in the configuration
    taken_.insert(table);
  const int attends = draft_block_ < 0 ? config.first_attending() : 0;
  fused_gates_ = *family_.gate_up != '\0' && !files_->tensor("blk.0.ffn_gate.weight") &&
                 !files_->tensor("blk.0.ffn_gate_shexp.weight");
  fused_queries_ = *family_.query_key_value != '\0' ||
                   files_->tensor(name({TensorRole::query_key_value, attends}));
  if (draft_block_ < 0)
    return;
  // A copy of the model's table is none of the block's own.
  const char* const head = config.tied_embedding ? "token_embd.weight" : "output.weight";
  for (const auto& [role, model] :
       {std::pair(TensorRole::embedding, "token_embd.weight"), {TensorRole::head, head}})
    if (same_bytes(files_->tensor(name({role})), files_->tensor(model))) {
      copies_.insert(role);
      ignore({role});
    }
}

bool GgufTensors::has(TensorRole role) const {
  switch (role) {
  case TensorRole::attention_norm: return *family_.attention_norm != '\0';
  case TensorRole::attention_post_norm: return *family_.attention_post_norm != '\0';
  case TensorRole::ffn_norm: return *family_.ffn_norm != '\0';
  case TensorRole::ffn_post_norm: return *family_.ffn_post_norm != '\0';
  case TensorRole::query:
  case TensorRole::key:
  case TensorRole::value: return !fused_queries_;
  case TensorRole::query_key_value: return fused_queries_;
  case TensorRole::gate: return !fused_gates_ && *family_.gate != '\0';
  case TensorRole::up: return !fused_gates_;
  case TensorRole::gate_up: return fused_gates_;
  case TensorRole::delta_joined: return false;
  case TensorRole::delta_rates: return family_.joined_heads;
  case TensorRole::delta_strength:
  case TensorRole::delta_rate: return !family_.joined_heads;
  case TensorRole::embedding:
  case TensorRole::head: return files_->tensor(name({role})) && !copies_.contains(role);
  default: return true;
  }
}

gpu::DType GgufTensors::dtype() const {
  std::optional<gpu::DType> first;
  bool differ = false;
  for (const auto& [name, tensor] : files_->tensors()) {
    if (!is_own(name) || !is_matrix(name, tensor.stored.shape))
      continue;
    const auto* plain = std::get_if<gpu::DType>(&tensor.stored.type);
    if (!plain)
      return gpu::DType::bf16;
    differ |= first.value_or(*plain) != *plain;
    first = *plain;
  }
  return differ ? gpu::DType::f32 : first.value_or(gpu::DType::f32);
}

std::string GgufTensors::prefix_of(int block) const {
  return fmt::format("blk.{}.", std::max(0, draft_block_) + block);
}

/// Returns whether a tensor belongs to the part that is read.
bool GgufTensors::is_own(std::string_view name) const {
  return draft_block_ < 0 || name.starts_with(prefix_of(0));
}

/// Returns whether a tensor of gates and ups of all experts has this one's matrix.
bool GgufTensors::is_half(TensorKey key) const {
  return key.expert >= 0 && (key.role == TensorRole::gate || key.role == TensorRole::up) &&
         files_->tensor(prefix_of(key.block) + "ffn_gate_up_exps.weight");
}

std::string GgufTensors::layer_of(TensorKey key) const {
  if (is_outside_blocks(key.role))
    return layer_of_table(key.role);
  if (is_half(key))
    return prefix_of(key.block) + "ffn_gate_up_exps";
  key.block += std::max(0, draft_block_);
  return names_.layer(key);
}

/// Returns the name of what is behind or before all layers. A block that drafts may have the norm
/// of the model.
std::string GgufTensors::layer_of_table(TensorRole role) const {
  if (draft_block_ < 0)
    return names_.layer({role});
  const std::string norm = prefix_of(0) + "nextn.shared_head_norm";
  switch (role) {
  case TensorRole::embedding: return prefix_of(0) + "nextn.embed_tokens";
  case TensorRole::head: return prefix_of(0) + "nextn.shared_head_head";
  default: return files_->tensor(norm + ".weight") ? norm : name_in_gguf(role);
  }
}

std::string GgufTensors::name(TensorKey key) const {
  return layer_of(key).append(ending_in_gguf(key.role));
}

Result<const GgufTensor*> GgufTensors::take(const std::string& name,
                                            const std::vector<std::int64_t>& shape) {
  const GgufTensor* tensor = files_->tensor(name);
  if (!tensor)
    return files_->wrong(fmt::format("tensor {} is missing", text::shown(name)), {},
                         ErrorCode::corrupt, torn_hint);
  if (tensor->shape != shape)
    return files_->wrong(fmt::format("is [{}], where its metadata wants [{}]",
                                     fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")),
                         name, ErrorCode::corrupt, torn_hint);
  if (taken_.insert(name).second)
    parameters_ += tensor->elements();
  return tensor;
}

Result<gpu::HostMatrix> GgufTensors::matrix(TensorKey key, int rows, int cols) {
  const bool half = is_half(key);
  std::vector<std::int64_t> shape{half ? 2 * rows : rows, cols};
  if (key.expert >= 0)
    shape.insert(shape.begin(), experts_);
  if (key.role == TensorRole::shared_gate) // A matrix of one row lies there without its dimension.
    shape.erase(shape.begin());
  const auto taken = take(name(key), shape);
  if (!taken)
    return tl::unexpected(taken.error());
  GgufTensor tensor = key.expert < 0 ? **taken : slice_of(**taken, key.expert);
  if (half) // Gates are above ups.
    tensor.bytes = tensor.bytes.subspan(key.role == TensorRole::up ? tensor.bytes.size() / 2 : 0,
                                        tensor.bytes.size() / 2);
  tensor.shape = {rows, cols};
  const gpu::GgufFormat* format = format_in(tensor);
  if (!format || gpu::weight_format(*format))
    return as_stored(tensor, order_of(key.role));
  return decoded(tensor, order_of(key.role));
}

gpu::HostMatrix GgufTensors::as_stored(const GgufTensor& tensor, const RowOrder& order) {
  const auto* dtype = std::get_if<gpu::DType>(&tensor.type);
  gpu::HostMatrix out{dtype ? *dtype : gpu::DType::f32, tensor.bytes.data(), int(tensor.shape[0]),
                      int(tensor.shape[1])};
  if (!dtype)
    out.blocks = *format_in(tensor);
  const bool aligned = reinterpret_cast<std::uintptr_t>(out.data) % alignment_of(tensor) == 0;
  if (!aligned || !order.is_own())
    return ordered_.ordered(out, order);
  out.file = &files_->file_of(tensor.name);
  return out;
}

/// Decodes a matrix to f32. Numbers in NVFP4 are also multiplied by one that is a tensor of its
/// own.
Result<gpu::HostMatrix> GgufTensors::decoded(const GgufTensor& tensor, const RowOrder& order) {
  const auto cols = std::size_t(tensor.shape[1]);
  const std::string scale_name =
      tensor.name.substr(0, tensor.name.size() - weight_ending.size()) + ".scale";
  float scale = 1;
  if (files_->tensor(scale_name)) {
    const auto one = take(scale_name, {1});
    if (!one)
      return tl::unexpected(one.error());
    scale = values_of(**one).front();
  }
  const gpu::GgufFormat format = *format_in(tensor);
  auto* const values =
      reinterpret_cast<float*>(ordered_.keep(std::size_t(tensor.shape[0]) * cols * sizeof(float)));
  for_rows(tensor, order, [&](int row, const std::byte* from) {
    float* const out = values + std::size_t(row) * cols;
    decode(format, from, cols, out);
    for (std::size_t i = 0; scale != 1 && i < cols; ++i)
      out[i] *= scale;
  });
  return gpu::HostMatrix{gpu::DType::f32, values, int(tensor.shape[0]), int(tensor.shape[1])};
}

/// Files have some vectors of recurrences as matrices, of one column or of a row for each key head.
Result<std::vector<float>> GgufTensors::vector(TensorKey key, int size) {
  std::vector<std::int64_t> shape{size};
  if (norm_parts_ > 0 && (key.role == TensorRole::speed || key.role == TensorRole::skip))
    shape = {size, 1};
  // llama.cpp's own tools write a norm of one row as a vector.
  const GgufTensor* stored = files_->tensor(name(key));
  const bool flat = norm_parts_ == 1 && stored && stored->shape.size() == 1;
  if (norm_parts_ > 0 && key.role == TensorRole::recurrence_norm && !flat)
    shape = {norm_parts_, size / norm_parts_};
  return take(name(key), shape).map([](const GgufTensor* tensor) { return values_of(*tensor); });
}

Result<std::vector<float>> GgufTensors::kernel(TensorKey key, int channels, int taps) {
  return take(name(key), {channels, taps}).map([](const GgufTensor* tensor) {
    return values_of(*tensor);
  });
}

Result<std::vector<float>> GgufTensors::bias(TensorKey key, int size) {
  std::vector<std::int64_t> shape{size};
  if (key.expert >= 0)
    shape.insert(shape.begin(), experts_);
  return take(layer_of(key).append(bias_ending), shape).map([&](const GgufTensor* tensor) {
    const auto stored = values_of(key.expert < 0 ? *tensor : slice_of(*tensor, key.expert));
    const RowOrder order = order_of(key.role);
    std::vector<float> out(stored.size());
    for (int i = 0; i < size; ++i)
      out[std::size_t(i)] = stored[std::size_t(order.in_file(i))];
    return out;
  });
}

bool GgufTensors::same(TensorKey a, TensorKey b) const {
  return same_bytes(files_->tensor(name(a)), files_->tensor(name(b)));
}

void GgufTensors::read_ahead_tables() const {
  for (const TensorRole role : {TensorRole::embedding, TensorRole::head})
    if (const GgufTensor* tensor = files_->tensor(name({role})))
      files_->file_of(tensor->name).read_ahead(tensor->bytes);
}

void GgufTensors::read_ahead_block(int block) const {
  const std::string prefix = prefix_of(block);
  const GgufFiles::Tensors& all = files_->tensors();
  for (auto at = all.lower_bound(prefix); at != all.end() && at->first.starts_with(prefix); ++at)
    files_->file_of(at->first).read_ahead(at->second.stored.bytes);
}

void GgufTensors::release(TensorKey key) {
  if (const GgufTensor* tensor = files_->tensor(name(key)))
    release_pages(key.expert < 0 ? tensor->bytes : slice_of(*tensor, key.expert).bytes);
  ordered_.release();
}

void GgufTensors::ignore(TensorKey key) {
  taken_.insert(name(key));
  taken_.insert(layer_of(key).append(bias_ending));
}

void GgufTensors::ignore_block(int block) {
  const std::string prefix = prefix_of(block);
  const GgufFiles::Tensors& all = files_->tensors();
  for (auto at = all.lower_bound(prefix); at != all.end() && at->first.starts_with(prefix); ++at)
    taken_.insert(at->first);
}

/// Refuses tensors that nobody took, except those that scale activations: these are not quantized
/// here.
Result<void> GgufTensors::check_all_taken() const {
  for (const auto& [name, tensor] : files_->tensors())
    if (is_own(name) && !taken_.contains(name) && !name.ends_with(".input_scale"))
      return files_->wrong("is not expected", name, ErrorCode::unsupported,
                           "the architecture in general.architecture does not have it here; "
                           "results would be wrong");
  return {};
}

std::vector<TensorSource::Stored> GgufTensors::tensors() const {
  std::vector<Stored> out;
  for (const auto& [name, tensor] : files_->tensors()) {
    const GgufTensor& stored = tensor.stored;
    if (!is_own(name))
      continue;
    const gpu::GgufFormat* format = format_in(stored);
    const bool kept = format && gpu::weight_format(*format);
    const bool table = name.ends_with("scale") || name.starts_with("rope_");
    out.push_back({gguf_part_of(name), table ? "" : to_string(stored.type), stored.bytes.size(),
                   table ? 0 : stored.elements(), false, kept, format && !kept, name});
  }
  return out;
}

} // namespace paceline::models
