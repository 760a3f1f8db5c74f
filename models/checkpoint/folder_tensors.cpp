#include "models/checkpoint/folder_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace paceline::models {
namespace {

/// Returns whether any family has a block's tensor of this name.
bool is_in_block(std::string_view name) {
  return std::ranges::any_of(known_families(), [&](const Family& family) {
    return std::ranges::any_of(family.names, [&](const ModelNames& names) {
      return name.starts_with(OuterNames::of(names).blocks);
    });
  });
}

} // namespace

ModelPart part_of(std::string_view name) {
  const auto has = [name](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  };
  if (has("lm_head") || has("embed_out"))
    return ModelPart::head;
  if (has("embed_") || has("embeddings.") || has("wte.") || has("wpe."))
    return ModelPart::embedding;
  if (has("norm") || has("ln_"))
    return ModelPart::norms;
  if (has("attn.") || has(".attention.") || has(".mamba.") || has(".conv."))
    return ModelPart::attention;
  constexpr std::string_view parts[] = {"mlp",
                                        "block_sparse_moe",
                                        ".fc",
                                        ".experts.",
                                        ".per_layer_input_gate",
                                        ".per_layer_projection",
                                        ".feed_forward.",
                                        ".mixer.up_proj",
                                        ".mixer.down_proj",
                                        ".mixer.gate.",
                                        ".mixer.shared_experts."};
  if (std::ranges::any_of(parts, has))
    return ModelPart::feed_forward;
  return has(".mixer.") ? ModelPart::attention : ModelPart::other;
}

bool is_block_weight(std::string_view name) {
  const ModelPart part = part_of(name);
  const bool router = name.ends_with(".gate.weight") || name.ends_with(".router.weight") ||
                      name.ends_with(".shared_expert_gate.weight") ||
                      name.ends_with(".router.layer.weight");
  const bool rates = name.ends_with(".in_proj_a.weight") || name.ends_with(".in_proj_b.weight") ||
                     name.ends_with(".in_proj_ba.weight");
  return name.ends_with(".weight") && !router && !rates && is_in_block(name) &&
         (part == ModelPart::attention || part == ModelPart::feed_forward);
}

bool is_convolution(std::string_view name) {
  return name.ends_with(".conv1d.weight") || name.ends_with(".conv.conv.weight");
}

bool is_computed(std::string_view name) {
  constexpr std::string_view endings[] = {".rotary_emb.inv_freq", ".attn.bias",
                                          ".attn.masked_bias",    ".attn.causal_mask",
                                          ".attention.bias",      ".attention.masked_bias"};
  return std::ranges::any_of(endings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

const ModelNames& names_in(const TensorFiles& files, const Family& family) {
  const auto at = [&](bool with_head) {
    return std::ranges::find_if(family.names, [&](const ModelNames& names) {
      const OuterNames outer = OuterNames::of(names);
      return files.has(outer.embedding + ".weight") &&
             (!with_head || files.has(outer.head + ".weight"));
    });
  };
  for (const bool with_head : {true, false})
    if (const auto names = at(with_head); names != family.names.end())
      return *names;
  return family.names.front();
}

/// Ignores tensors that change nothing: stored copies of what is computed from config.json, and
/// scales of what is not quantized here.
FolderTensors::FolderTensors(TensorFiles files, const BlockTensors& names,
                             const ModelConfig& config, OuterNames outer)
    : files_(std::move(files)), names_(names), outer_(std::move(outer)),
      stacks_(files_, names.order, config.mixture ? config.mixture->experts : 0),
      quantized_(files_, config.quantization) {
  for (const TensorRole role : {TensorRole::query, TensorRole::key, TensorRole::query_key_value})
    orders_[role] = row_order(role, config, names.heads);
  for (const TensorFiles::Stored& tensor : files_.tensors())
    if (is_computed(tensor.entry->name) || quantized_.is_of_activations(tensor.entry->name))
      files_.ignore(tensor.entry->name);
}

bool FolderTensors::has(TensorRole role) const {
  switch (role) {
  case TensorRole::query:
  case TensorRole::key:
  case TensorRole::value: return *names_.query_key_value == '\0';
  case TensorRole::gate: return *names_.gate_up == '\0' && *names_.gate != '\0';
  case TensorRole::up: return *names_.gate_up == '\0';
  case TensorRole::query_key_value:
  case TensorRole::gate_up: return *name_in_block(role) != '\0';
  case TensorRole::delta_joined:
  case TensorRole::delta_rates: return names_.joined_heads;
  case TensorRole::delta_in:
  case TensorRole::delta_gate:
  case TensorRole::delta_strength:
  case TensorRole::delta_rate: return !names_.joined_heads;
  case TensorRole::attention_norm:
  case TensorRole::attention_post_norm:
  case TensorRole::ffn_norm:
  case TensorRole::ffn_post_norm: return *name_in_block(role) != '\0';
  case TensorRole::embedding:
  case TensorRole::head:
    return files_.has(name_of({role}) + ".weight") || quantized_.has(name_of({role}));
  default: return true;
  }
}

/// Returns the name of the tensor of all experts that has this one's matrix; empty: it has a tensor
/// of its own.
std::string FolderTensors::stack_of(TensorKey key) const {
  if (key.expert < 0)
    return "";
  const bool down = key.role == TensorRole::down;
  std::string name =
      prefix_of(key.block) + names_.experts + (down ? names_.stacked_down : names_.stacked_gate_up);
  return stacks_.has(name) ? name : "";
}

bool FolderTensors::is_transposed(TensorRole role) const {
  return names_.transposed && role != TensorRole::embedding && role != TensorRole::head &&
         role != TensorRole::positions;
}

Result<gpu::HostMatrix> FolderTensors::matrix(TensorKey key, int rows, int cols) {
  const bool turned = is_transposed(key.role);
  const RowOrder order = order_of(key.role);
  return stored(key, turned ? cols : rows, turned ? rows : cols)
      .map([&](const gpu::HostMatrix& matrix) {
        const gpu::HostMatrix upright = turned ? ordered_.transposed(matrix) : matrix;
        return order.is_own() ? upright : ordered_.ordered(upright, order);
      });
}

/// Returns a matrix as it lies in the files.
Result<gpu::HostMatrix> FolderTensors::stored(TensorKey key, int rows, int cols) {
  if (const std::string stack = stack_of(key); !stack.empty())
    return stacks_.matrix(stack, key, rows, cols);
  const std::string layer = name_of(key);
  if (!quantized_.has(layer))
    return files_.matrix(layer + ".weight", rows, cols);
  if (key.role == TensorRole::embedding)
    return files_.wrong(layer + ".weight", "is quantized, which an embedding here never is");
  auto matrix = quantized_.matrix(layer, rows, cols);
  if (matrix && matrix->block_scales && is_transposed(key.role))
    return files_.wrong(layer + ".weight", "has blocks of outputs, which are of inputs here");
  return matrix;
}

Result<std::vector<float>> FolderTensors::bias(TensorKey key, int size) {
  if (const std::string stack = stack_of(key); !stack.empty())
    return stacks_.bias(stack, key, size);
  const RowOrder order = order_of(key.role);
  return files_.vector(name_of(key) + ".bias", size).map([&](std::vector<float>&& stored) {
    if (order.is_own())
      return std::move(stored);
    std::vector<float> out;
    for (int i = 0; i < size; ++i)
      out.push_back(stored[std::size_t(order.in_file(i))]);
    return out;
  });
}

/// Folders have the logarithm of a speed's size.
Result<std::vector<float>> FolderTensors::vector(TensorKey key, int size) {
  auto out = files_.vector(name(key), size);
  if (out && key.role == TensorRole::speed)
    for (float& speed : *out)
      speed = -std::exp(speed);
  return out;
}

void FolderTensors::release(TensorKey key) {
  if (const std::string stack = stack_of(key); !stack.empty())
    return stacks_.release(stack);
  files_.release(name(key));
  quantized_.release(name_of(key));
  ordered_.release();
}

void FolderTensors::read_ahead_tables() const {
  for (const TensorRole table : {TensorRole::embedding, TensorRole::head})
    files_.read_ahead(name_of({table}) + ".");
}

void FolderTensors::read_ahead_block(int block) const {
  files_.read_ahead(prefix_of(block));
}

/// Returns the prefix of the names of a block's tensors.
std::string FolderTensors::prefix_of(int block) const {
  return outer_.numbered ? fmt::format("{}{}.", outer_.blocks, block) : outer_.blocks;
}

std::string FolderTensors::name(TensorKey key) const {
  constexpr TensorRole bare_roles[] = {TensorRole::sinks,       TensorRole::choice_bias,
                                       TensorRole::speed,       TensorRole::offset,
                                       TensorRole::skip,        TensorRole::layer_scale,
                                       TensorRole::router_norm, TensorRole::expert_scales};
  const bool bare = std::ranges::find(bare_roles, key.role) != std::end(bare_roles);
  const std::string stack = stack_of(key);
  return !stack.empty() ? stack : name_of(key).append(bare ? "" : ".weight");
}

std::string FolderTensors::name_of(TensorKey key) const {
  switch (key.role) {
  case TensorRole::embedding: return outer_.embedding;
  case TensorRole::positions: return outer_.positions;
  case TensorRole::head: return outer_.head;
  case TensorRole::final_norm: return outer_.final_norm;
  case TensorRole::fusion: return outer_.fusion;
  case TensorRole::fusion_norm: return outer_.fusion_norm;
  case TensorRole::token_norm: return outer_.token_norm;
  case TensorRole::tap_norm:
    return outer_.tap_norm + (outer_.tap_norm.ends_with('.') ? std::to_string(key.block) : "");
  case TensorRole::fusion_out: return outer_.fusion_out;
  case TensorRole::clusters: return outer_.clusters;
  case TensorRole::input_table: return outer_.prefix + "embed_tokens_per_layer";
  case TensorRole::input_projection: return outer_.prefix + "per_layer_model_projection";
  case TensorRole::input_norm: return outer_.prefix + "per_layer_projection_norm";
  default:
    return prefix_of(key.block) + (key.expert != -1 ? name_of_expert(key)
                                   : *name_in_mixer(key.role) != '\0'
                                       ? std::string(names_.recurrent) + name_in_mixer(key.role)
                                       : name_in_block(key.role));
  }
}

std::string FolderTensors::name_of_expert(TensorKey key) const {
  const char* const part = key.role == TensorRole::gate      ? names_.expert_gate
                           : key.role == TensorRole::up      ? names_.expert_up
                           : key.role == TensorRole::gate_up ? names_.expert_gate_up
                                                             : names_.expert_down;
  if (key.expert == shared_expert)
    return std::string(names_.shared_expert) + part;
  return fmt::format("{}{}.{}", names_.experts, key.expert, part);
}

const char* FolderTensors::name_in_block(TensorRole role) const {
  switch (role) {
  case TensorRole::attention_norm: return names_.attention_norm;
  case TensorRole::query: return names_.query;
  case TensorRole::key: return names_.key;
  case TensorRole::value: return names_.value;
  case TensorRole::query_key_value: return names_.query_key_value;
  case TensorRole::query_norm: return names_.query_norm;
  case TensorRole::key_norm: return names_.key_norm;
  case TensorRole::sinks: return "self_attn.sinks";
  case TensorRole::attention_out: return names_.attention_out;
  case TensorRole::attention_post_norm: return names_.attention_post_norm;
  case TensorRole::ffn_norm: return names_.ffn_norm;
  case TensorRole::router: return names_.router;
  case TensorRole::router_norm: return "router.scale";
  case TensorRole::expert_scales: return "router.per_expert_scale";
  case TensorRole::expert_norm: return "pre_feedforward_layernorm_2";
  case TensorRole::expert_post_norm: return "post_feedforward_layernorm_2";
  case TensorRole::shared_post_norm: return "post_feedforward_layernorm_1";
  case TensorRole::choice_bias: return names_.choice_bias;
  case TensorRole::shared_gate: return names_.shared_gate;
  case TensorRole::gate: return names_.gate;
  case TensorRole::up: return names_.up;
  case TensorRole::gate_up: return names_.gate_up;
  case TensorRole::down: return names_.down;
  case TensorRole::ffn_post_norm: return names_.ffn_post_norm;
  case TensorRole::layer_scale: return "layer_scalar";
  case TensorRole::input_gate: return "per_layer_input_gate";
  case TensorRole::input_out: return "per_layer_projection";
  case TensorRole::input_post_norm: return "post_per_layer_input_norm";
  case TensorRole::input_table:
  case TensorRole::input_projection:
  case TensorRole::input_norm:
  case TensorRole::fusion:
  case TensorRole::fusion_norm:
  case TensorRole::tap_norm:
  case TensorRole::token_norm:
  case TensorRole::fusion_out:
  case TensorRole::clusters:
  case TensorRole::embedding:
  case TensorRole::positions:
  case TensorRole::head:
  case TensorRole::final_norm: break;
  default: break; // name_in_mixer
  }
  return "";
}

/// Returns the name of a recurrent layer's tensor, below that of its mixer.
const char* FolderTensors::name_in_mixer(TensorRole role) const {
  switch (role) {
  case TensorRole::mixer_in: return "in_proj";
  case TensorRole::mixer_out: return "out_proj";
  case TensorRole::kernel: return names_.kernel;
  case TensorRole::speed: return "A_log";
  case TensorRole::offset: return "dt_bias";
  case TensorRole::skip: return "D";
  case TensorRole::recurrence_norm: return "norm";
  case TensorRole::delta_in: return "in_proj_qkv";
  case TensorRole::delta_gate: return "in_proj_z";
  case TensorRole::delta_strength: return "in_proj_b";
  case TensorRole::delta_rate: return "in_proj_a";
  case TensorRole::delta_joined: return "in_proj_qkvz";
  case TensorRole::delta_rates: return "in_proj_ba";
  default: return "";
  }
}

std::vector<TensorSource::Stored> FolderTensors::tensors() const {
  std::vector<Stored> out;
  for (const TensorFiles::Stored& tensor : files_.tensors()) {
    const TensorEntry& entry = *tensor.entry;
    Stored stored{part_of(entry.name), quantized_.format_name(entry), entry.bytes.size(), 0, true};
    if (entry.type == StoredType::i64 || entry.type == StoredType::boolean) // ids are no weights
      stored = {stored.part, "", stored.bytes, 0, false};
    else if (const auto dtype = dtype_of(entry.type); dtype && !is_scale(entry.name))
      stored = {stored.part, gpu::to_string(*dtype), stored.bytes,
                stored.bytes / gpu::size_of(*dtype), false};
    else if (!stored.format.empty())
      stored.elements = quantized_.elements(entry);
    stored.name = entry.name;
    out.push_back(std::move(stored));
  }
  return out;
}

} // namespace paceline::models
