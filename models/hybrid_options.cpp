// What the config.json of Granite, of LFM 2 and of Nemotron-H says in its own way.
#include "gpu/limits.hpp"
#include "models/common_options.hpp"
#include "models/family_options.hpp"
#include "models/limits.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {
namespace json = boost::json;

/// Reads the factors of Granite. What goes from layer to layer is kept divided by the factor of a
/// layer's outputs, so that these are added as they are: a norm gives the same of it, if its
/// epsilon is divided by the square.
void read_granite(text::JsonFields& fields, ModelConfig& c) {
  const auto factor = [&](const char* key) { return fields.number(key, 1e-4, 1e4, 1); };
  const double residual = factor("residual_multiplier");
  c.attention_scale = float(factor("attention_multiplier"));
  c.embedding_scale = float(factor("embedding_multiplier") / residual);
  c.norm_epsilon = float(double(c.norm_epsilon) / (residual * residual));
  c.logit_scale = float(1 / factor("logits_scaling"));
}

void read_granite_moe(text::JsonFields& fields, ModelConfig& c) {
  read_granite(fields, c);
  read_mixture(fields, c, "num_local_experts", c.ffn, [](int) { return true; });
  c.mixture->router.normalised = true;
}

void read_granite_moe_shared(text::JsonFields& fields, ModelConfig& c) {
  read_granite_moe(fields, c);
  c.mixture->shared_ffn =
      int(fields.integer("shared_intermediate_size", 0, 8 * limits::hidden_max, 0));
}

namespace {

/// Returns a number that may be infinite, which transformers writes as an object; -1: it is none.
double bound_of(const json::value& value) {
  const json::object* tagged = value.if_object();
  if (tagged && tagged->contains("__float__") && tagged->at("__float__") == "Infinity")
    return std::numeric_limits<double>::infinity();
  return value.is_number() ? value.to_number<double>() : -1;
}

/// Reads the bounds of a row's time, a list of two.
void read_time_limit(text::JsonFields& fields, gpu::Recurrence& rule) {
  const json::value* limit = fields.find("time_step_limit");
  if (!limit)
    return;
  const json::array* both = limit->if_array();
  const bool two = both && both->size() == 2;
  const double least = two ? bound_of((*both)[0]) : -1;
  const double most = two ? bound_of((*both)[1]) : -1;
  if (least < 0 || most < least)
    return fields.wrong(ErrorCode::corrupt, "time_step_limit is not two times in order", "");
  rule.time_least = float(least);
  rule.time_most = float(most);
}

/// Reads the sizes of Mamba-2's layers. groups: their key heads, if the file does not say it;
/// values: of a row; 0: as many as the heads have.
RecurrenceConfig read_mamba2(text::JsonFields& fields, int groups, std::int64_t values) {
  RecurrenceConfig recurrence;
  gpu::Recurrence& rule = recurrence.rule;
  rule.update = gpu::StateUpdate::sum;
  rule.key_heads = int(fields.integer("mamba_n_groups", 1, limits::heads_max, groups));
  rule.value_heads = int(fields.integer("mamba_n_heads", 1, limits::heads_max, 128));
  rule.key_dim = int(fields.integer("mamba_d_state", 1, gpu::limits::state_dim_max));
  const json::value* head = fields.find("mamba_d_head");
  rule.value_dim = values > 0 && (!head || *head == "auto")
                       ? int(values / rule.value_heads)
                       : int(fields.integer("mamba_d_head", 1, gpu::limits::state_dim_max));
  if (values > 0 &&
      (std::int64_t(rule.values()) != values || rule.value_dim > gpu::limits::state_dim_max))
    fields.wrong(
        ErrorCode::corrupt,
        fmt::format("{} heads of {} (mamba_n_heads, mamba_d_head) are not the {} numbers of "
                    "mamba_expand",
                    rule.value_heads, rule.value_dim, values),
        "the checkpoint contradicts itself");
  rule.taps = int(fields.integer("mamba_d_conv", 1, gpu::limits::state_taps_max, 4));
  check_recurrence(fields, rule, "mamba_n_heads", "mamba_n_groups");
  read_time_limit(fields, rule);
  recurrence.kernel_bias = fields.boolean("mamba_conv_bias", true);
  recurrence.projection_bias = fields.boolean("mamba_proj_bias", false);
  return recurrence;
}

} // namespace

/// Reads the options of Granite 4, whose layers are recurrent but for a few, and dense or mixtures
/// with a shared expert.
void read_granite_hybrid(text::JsonFields& fields, ModelConfig& c) {
  const float epsilon = c.norm_epsilon;
  const bool mixes = fields.integer("num_local_experts", 0, limits::experts_max, 8) > 0;
  const int shared = width_of(fields, "shared_intermediate_size", 1024);
  if (mixes) {
    read_granite_moe(fields, c);
    c.mixture->shared_ffn = shared;
  } else {
    read_granite(fields, c);
    c.ffn = shared;
  }
  const std::string positions = fields.string("position_embedding_type", "nope");
  if (positions != "rope" && positions != "nope")
    fields.wrong(ErrorCode::unsupported,
                 fmt::format("position_embedding_type {} is not known", text::shown(positions)),
                 "use a checkpoint with rope or none");
  const std::vector<int> types =
      layer_types(fields, c, {"mamba", "linear_attention", "attention", "full_attention"});
  for (std::size_t i = 0; i < types.size(); ++i) {
    c.mixers[i].mixer = types[i] < 2 ? Mixer::recurrence : Mixer::attention;
    c.mixers[i].rope = positions == "rope" ? 0 : -1;
  }
  if (!c.has_states())
    return;
  c.recurrence =
      read_mamba2(fields, 1, fields.integer("mamba_expand", 1, mamba_expand_max, 2) * c.hidden);
  c.recurrence->norm_width = c.recurrence->rule.values();
  c.recurrence->norm_epsilon = epsilon;
}

namespace {

/// Reads which layers of LFM 2 have attention: as "layer_types" lists them, or "full_attn_idxs".
void read_convolutions(text::JsonFields& fields, ModelConfig& c) {
  ConvolutionConfig convolution;
  convolution.taps = int(fields.integer("conv_L_cache", 1, gpu::limits::state_taps_max, 3));
  convolution.bias = fields.boolean("conv_bias", false);
  c.convolution = convolution;
  const std::vector<int> types = layer_types(fields, c, {"full_attention", "conv"});
  const json::value* listed = fields.find("full_attn_idxs");
  if (listed && !listed->is_array())
    return fields.wrong(ErrorCode::corrupt, "full_attn_idxs is not a list", "");
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool attends =
        types[i] >= 0 ? types[i] == 0
        : listed      ? std::ranges::count(listed->get_array(), json::value(std::int64_t(i))) > 0
                      : true;
    c.mixers[i].mixer = attends ? Mixer::attention : Mixer::short_convolution;
  }
}

} // namespace

/// Reads the options of LFM 2, which gives the width of a feed-forward without gates: with them it
/// is two thirds of that, in whole steps.
void read_lfm2(text::JsonFields& fields, ModelConfig& c) {
  const std::int64_t step = fields.integer("block_multiple_of", 1, limits::hidden_max, 256);
  const double factor = fields.number("block_ffn_dim_multiplier", 1e-3, 1e3, 1);
  if (fields.boolean("block_auto_adjust_ff_dim", true)) {
    const auto width = std::int64_t(factor * double(2 * std::int64_t(c.ffn) / 3));
    const std::int64_t whole = (width + step - 1) / step * step;
    if (whole < 1 || whole > 8 * limits::hidden_max)
      fields.wrong(ErrorCode::corrupt,
                   fmt::format("block_ffn_dim_multiplier makes a width of {}", whole), "");
    else
      c.ffn = int(whole);
  }
  read_convolutions(fields, c);
}

/// Reads the options of LFM 2's mixtures, which follow some dense layers.
void read_lfm2_moe(text::JsonFields& fields, ModelConfig& c) {
  const auto dense = fields.integer("num_dense_layers", 0, limits::layers_max, 2);
  read_mixture(fields, c, "num_experts", width_of(fields, "moe_intermediate_size", 1792),
               [&](int layer) { return layer >= dense; });
  c.mixture->choice_bias = fields.boolean("use_expert_bias", true);
  read_sigmoid_router(fields, *c.mixture, true);
  read_convolutions(fields, c);
}

namespace {

/// What a layer of Nemotron-H is.
enum class NemotronLayer { mamba2, attention, dense, mixture };

/// Reads what each layer is: as "layers_block_type" lists them, or as the letters of
/// "hybrid_override_pattern" say.
std::vector<NemotronLayer> nemotron_layers(text::JsonFields& fields, const ModelConfig& c) {
  std::vector<NemotronLayer> layers;
  for (const int type : layer_types(
           fields, c, {"linear_attention", "full_attention", "mlp", "moe", "mamba", "attention"}))
    layers.push_back(NemotronLayer(std::max(type, 0) % 4)); // The last two are older words.
  if (fields.find("layer_types"))
    return layers;
  constexpr std::string_view letters = "M*-E";
  const std::string pattern = fields.string("hybrid_override_pattern", "");
  const bool known = pattern.find_first_not_of(letters) == pattern.npos;
  if (!known || pattern.size() != layers.size()) {
    fields.wrong(ErrorCode::corrupt,
                 fmt::format("hybrid_override_pattern {} is not one of M, *, - and E for every "
                             "layer",
                             text::shown(pattern)),
                 "the checkpoint contradicts itself");
    return layers;
  }
  for (std::size_t i = 0; i < layers.size(); ++i)
    layers[i] = NemotronLayer(letters.find(pattern[i]));
  return layers;
}

/// Reads Nemotron's mixtures, whose experts have no gates. A file without such has their keys all
/// the same.
void read_nemotron_mixture(text::JsonFields& fields, ModelConfig& c,
                           const std::vector<NemotronLayer>& layers) {
  if (std::ranges::count(layers, NemotronLayer::mixture) == 0) {
    for (const char* key : {"n_routed_experts", "n_shared_experts", "moe_latent_size", "n_group",
                            "shared_expert_intermediate_size", "routed_scaling_factor"})
      fields.find(key);
    return;
  }
  read_mixture(fields, c, "n_routed_experts", width_of(fields, "moe_intermediate_size", 7688),
               [&](int layer) { return layers[std::size_t(layer)] == NemotronLayer::mixture; });
  c.mixture->choice_bias = true;
  c.mixture->shared_ffn = width_of(fields, "shared_expert_intermediate_size", 7688);
  read_sigmoid_router(fields, *c.mixture, true);
  if (fields.integer("n_shared_experts", 0, limits::experts_max, 1) != 1)
    fields.wrong(ErrorCode::unsupported,
                 fmt::format("{} other than 1 is not known for {}",
                             fields.spelled("n_shared_experts"), c.architecture),
                 "use a checkpoint with one shared expert");
}

} // namespace

/// Reads the options of Nemotron-H, whose layers are either a mixer or a feed-forward, and do not
/// encode positions. Each key head's values are normalised together.
void read_nemotron_h(text::JsonFields& fields, ModelConfig& c) {
  const std::vector<NemotronLayer> layers = nemotron_layers(fields, c);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerConfig& layer = c.mixers[i];
    layer.mixer = layers[i] == NemotronLayer::mamba2      ? Mixer::recurrence
                  : layers[i] == NemotronLayer::attention ? Mixer::attention
                                                          : Mixer::none;
    layer.feeds = layer.mixer == Mixer::none;
  }
  rotate_nothing(c);
  c.gated = false;
  read_nemotron_mixture(fields, c, layers);
  const auto refuse = [&](const std::string& what) {
    fields.wrong(ErrorCode::unsupported,
                 fmt::format("{} is not known for {}", what, c.architecture),
                 "use a checkpoint without it; results would be wrong");
  };
  if (c.qkv_bias)
    refuse("attention_bias");
  const std::string activation = fields.string("mamba_hidden_act", "silu");
  if (activation != "silu")
    refuse("mamba_hidden_act " + text::shown(activation));
  if (!c.has_states())
    return;
  c.recurrence = read_mamba2(fields, 8, 0);
  c.recurrence->norm_width = c.recurrence->rule.values() / c.recurrence->rule.key_heads;
  c.recurrence->norm_epsilon = c.norm_epsilon;
}

} // namespace paceline::models
