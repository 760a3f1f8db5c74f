// Reads config.json by the rules of its family.
#include "models/families.hpp"
#include "models/limits.hpp"
#include "models/rope.hpp"
#include "text/json.hpp"
#include "text/limits.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace {

/// Options of models like these that change results. One that the family did not read is refused,
/// unless it is off.
constexpr const char* changing_options[] = {
    "add_cross_attention",
    "alibi",
    "attention_bias",
    "attention_chunk_size",
    "attention_k_eq_v",
    "attention_multiplier",
    "attn_logit_softcapping",
    "attn_temperature_tuning",
    "clip_qkv",
    "embedding_multiplier",
    "enable_moe_block",
    "final_logit_softcapping",
    "hidden_size_per_layer_input",
    "layer_types",
    "logit_scale",
    "logits_scaling",
    "mlp_bias",
    "mlp_only_layers",
    "moe_latent_size",
    "n_group",
    "n_routed_experts",
    "n_shared_experts",
    "no_rope_layers",
    "num_experts",
    "num_kv_shared_layers",
    "num_local_experts",
    "parallel_attn",
    "per_layer_config",
    "qk_layernorm",
    "qkv_bias",
    "query_pre_attn_scalar",
    "residual_multiplier",
    "rope_local_base_freq",
    "routed_scaling_factor",
    "scale_attn_by_inverse_layer_idx",
    "shared_expert_intermediate_size",
    "sliding_window",
    "swiglu_alpha",
    "swiglu_limit",
    "use_bidirectional_attention",
    "use_double_wide_mlp",
    "use_qk_norm",
};

bool says_no(const json::value& value) {
  return value.is_null() || value == false || value == 0 ||
         (value.is_array() && value.get_array().empty());
}

void refuse_other_options(text::JsonFields& fields, const ModelConfig& c) {
  for (const char* key : changing_options)
    if (const json::value* value = fields.unread(key); value && !says_no(*value))
      fields.wrong(ErrorCode::unsupported,
                   fmt::format("{} is not known for {}", fields.spelled(key), c.architecture),
                   "use a checkpoint without it; results would be wrong");
}

void read_activation(text::JsonFields& fields, const Family& family, ModelConfig& c) {
  using enum gpu::Activation;
  constexpr std::pair<const char*, gpu::Activation> known[] = {
      {"silu", silu},          {"swish", silu},          {"gelu_pytorch_tanh", gelu_tanh},
      {"gelu_new", gelu_tanh}, {"gelu_fast", gelu_tanh}, {"gelu", gelu},
      {"relu", relu},          {"relu2", relu_squared},
  };
  const std::string name = fields.string(family.activation_key, family.activation);
  const auto at = std::ranges::find(known, name, [](const auto& each) { return each.first; });
  if (at != std::end(known))
    c.gating.activation = at->second;
  else
    fields.wrong(ErrorCode::unsupported,
                 fmt::format("{} {} is not known", family.activation_key, text::shown(name)),
                 "use a checkpoint with silu, gelu, gelu_pytorch_tanh, relu or relu2");
}

void read_shape(text::JsonFields& fields, const Family& family, ModelConfig& c) {
  c.hidden = int(fields.integer("hidden_size", 1, limits::hidden_max));
  c.layers = int(fields.integer("num_hidden_layers", 1, limits::layers_max));
  const auto absent = [](int size) {
    return size > 0 ? std::optional<std::int64_t>(size) : std::nullopt;
  };
  const ShapeDefaults& sizes = family.shape;
  c.heads = int(fields.integer("num_attention_heads", 1, limits::heads_max, absent(sizes.heads)));
  c.kv_heads = int(fields.integer("num_key_value_heads", 1, limits::heads_max,
                                  sizes.kv_heads > 0 ? sizes.kv_heads : c.heads));
  c.head_dim = int(fields.integer("head_dim", 1, limits::head_dim_max,
                                  family.head_dim > 0 ? family.head_dim : c.hidden / c.heads));
  // A model of mixtures alone need not say how wide a dense layer would be.
  const int usual = fields.find("moe_intermediate_size") ? 1 : sizes.ffn_times * c.hidden;
  c.ffn = int(fields.integer("intermediate_size", 1, 8 * limits::hidden_max, absent(usual)));
  c.vocabulary =
      int(fields.integer("vocab_size", 1, text::limits::vocabulary_max, absent(sizes.vocabulary)));
  c.context =
      int(fields.integer("max_position_embeddings", 1, limits::context_max, absent(sizes.context)));
}

void check_shape(text::JsonFields& fields, const Family& family, const ModelConfig& c) {
  const auto contradiction = [&](std::string what) {
    fields.wrong(ErrorCode::corrupt, std::move(what), "the checkpoint contradicts itself");
  };
  if (!fields.find("head_dim") && family.head_dim == 0 && c.hidden % c.heads != 0)
    contradiction(fmt::format("hidden_size {} is not a multiple of num_attention_heads {}",
                              c.hidden, c.heads));
  if (c.heads % c.kv_heads != 0)
    contradiction(fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}",
                              c.heads, c.kv_heads));
  if (family.tensors.heads.parts != 1 && c.kv_heads != c.heads)
    contradiction(fmt::format("num_key_value_heads {} is not {} {}, as {} has it", c.kv_heads,
                              fields.spelled("num_attention_heads"), c.heads, c.architecture));
  if (c.head_dim % 2 != 0)
    contradiction(fmt::format("head_dim {} is odd", c.head_dim));
  if (std::int64_t(c.head_dim) * (c.heads + 2 * c.kv_heads) > 4 * limits::hidden_max)
    contradiction(
        fmt::format("{} heads of {} are more than this build takes", c.heads, c.head_dim));
}

/// Checks that each expert's outputs are whole tiles of a packed weight
/// (Operations::expert_linear).
void check_mixture(text::JsonFields& fields, const ModelConfig& c) {
  const int units = c.gated ? 8 : 16; // With gates there are two outputs for each.
  if (c.mixture && (c.hidden % 16 != 0 || c.mixture->ffn % units != 0))
    fields.wrong(
        ErrorCode::unsupported,
        fmt::format("experts of {} units in {} dimensions are not known", c.mixture->ffn, c.hidden),
        fmt::format("use a checkpoint whose hidden_size is a multiple of 16, and its experts' "
                    "width of {}",
                    units));
  if (c.mixture && 2.0 * c.mixture->experts * c.mixture->ffn > std::numeric_limits<int>::max())
    fields.wrong(ErrorCode::unsupported,
                 fmt::format("{} experts of {} units are more than this build takes",
                             c.mixture->experts, c.mixture->ffn),
                 "use a checkpoint with fewer or narrower experts");
}

/// Returns the object that describes what writes; null: the file lacks it.
const json::object* text_part(text::JsonFields& fields, const Family& family,
                              const json::object& object) {
  if (*family.text_config == '\0')
    return &object;
  const json::value* part = fields.find(family.text_config);
  if (part && part->is_object())
    return &part->get_object();
  fields.wrong(ErrorCode::corrupt, fmt::format("{} is not an object", family.text_config), "");
  return nullptr;
}

/// Gives keys that the family calls otherwise their usual names, and adds its own to `spelled`;
/// counts the layers of a list.
json::object usual_keys(json::object object, const Family& family, text::Spellings& spelled) {
  for (const auto& [key, own] : family.keys)
    if (object.contains(own)) {
      const json::value value = object.at(own);
      object[key] = value;
      spelled.emplace(key, own);
    }
  const json::value* list = object.if_contains(family.layer_list);
  if (list && list->is_array() && !object.contains("num_hidden_layers"))
    object["num_hidden_layers"] = std::int64_t(list->get_array().size());
  return object;
}

} // namespace

Result<ModelConfig> read_config(const std::string& where, const json::object& object,
                                const text::Spellings& spellings) {
  text::Spellings spelled = spellings;
  text::JsonFields whole(where, object, spellings);
  const Family* family = find_family(whole);
  const json::object* text = family ? text_part(whole, *family, object) : nullptr;
  if (!text)
    return tl::unexpected(*whole.error());
  const json::object usual = usual_keys(*text, *family, spelled);
  text::JsonFields fields(text == &object ? where : where + ": " + family->text_config, usual,
                          spelled);
  ModelConfig c;
  c.text_only = text != &object;
  c.quantization = read_quantization(whole, family->tensors.order == ExpertOrder::in_turn);
  c.architecture = family->architecture;
  c.qk_norm = family->qk_norm;
  c.norms_plus_one = family->norms_plus_one;
  read_shape(fields, *family, c);
  check_shape(fields, *family, c);
  c.norm_epsilon = float(fields.number("rms_norm_eps", 0, 1, family->norm_epsilon));
  c.tied_embedding = fields.boolean("tie_word_embeddings",
                                    whole.boolean("tie_word_embeddings", family->tied_embedding));
  c.qkv_bias = c.attention_out_bias = fields.boolean("attention_bias", false);
  c.ffn_bias = fields.boolean("mlp_bias", false);
  c.attention_scale = 1 / std::sqrt(float(c.head_dim));
  c.mixers.resize(std::size_t(c.layers));
  read_activation(fields, *family, c);
  c.ropes.push_back(read_rope(fields, c, family->rope));
  if (family->read)
    family->read(fields, c);
  check_mixture(fields, c);
  refuse_other_options(fields, c);
  for (const text::JsonFields* each : {&whole, &fields})
    if (each->error())
      return tl::unexpected(*each->error());
  return c;
}

} // namespace paceline::models
