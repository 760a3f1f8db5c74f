// What the configurations of Gemma's generations say in their own way.
#include "base/parse_number.hpp"
#include "models/common_options.hpp"
#include "models/families.hpp"
#include "models/family_options.hpp"
#include "models/limits.hpp"
#include "models/rope.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <fmt/format.h>
#include <string_view>

namespace paceline::models {
namespace {

/// Returns a cap: `absent` if the file does not mention it, and none if it says null.
float read_cap(text::JsonFields& fields, const char* key, double absent) {
  return float(fields.number(key, 1e-3, 1e6, fields.says(key) ? 0 : absent));
}

void read_gemma(text::JsonFields& fields, ModelConfig& c, double logit_cap, std::int64_t pattern) {
  const double scalar = fields.number("query_pre_attn_scalar", 1e-3, 1e6, 256);
  c.attention_scale = float(1 / std::sqrt(scalar));
  c.embedding_scale = std::sqrt(float(c.hidden));
  c.logit_soft_cap = read_cap(fields, "final_logit_softcapping", logit_cap);
  const int window = window_of(fields, 4096);
  set_windows(fields, c, window, [&](int layer) { return (layer + 1) % pattern != 0; });
}

} // namespace

void read_gemma2(text::JsonFields& fields, ModelConfig& c) {
  read_gemma(fields, c, 30, 2);
  c.attention_soft_cap = read_cap(fields, "attn_logit_softcapping", 50);
}

/// Reads Gemma 3's configuration. Layers with a window have a RoPE base of their own. A cap of
/// attention is refused: files may name one, but the reference leaves it out.
void read_gemma3(text::JsonFields& fields, ModelConfig& c) {
  read_gemma(fields, c, 0, fields.integer("sliding_window_pattern", 1, limits::layers_max, 6));
  rotate_windows_apart(
      fields, c, fields.number("rope_local_base_freq", rope_theta_min, rope_theta_max, 10'000));
}

namespace {

/// Reads the parts of a Gemma 4 (2026), whose layers differ in more than their windows.
class Gemma4 {
public:
  Gemma4(text::JsonFields& fields, ModelConfig& config) : fields_(fields), c_(config) {}

  void read() {
    c_.value_norm = c_.layer_scales = true;
    c_.attention_scale = 1;
    c_.embedding_scale = std::sqrt(float(c_.hidden));
    c_.logit_soft_cap = read_cap(fields_, "final_logit_softcapping", 0);
    read_windows();
    read_heads();
    read_rotations();
    share_keys();
    read_inputs();
    if (fields_.boolean("enable_moe_block", false))
      read_experts();
  }

private:
  bool slides(int layer) const { return c_.mixers[std::size_t(layer)].window > 0; }

  /// The last layer always sees all positions, whatever the file says of it.
  void read_windows() {
    const auto window = fields_.integer("sliding_window", 1, limits::context_max, 512);
    set_windows(fields_, c_, int(window), [](int layer) { return (layer + 1) % 6 != 0; });
    c_.mixers.back().window = 0;
    if (const auto* sees = fields_.find("use_bidirectional_attention"); sees && *sees != "vision")
      fields_.wrong(ErrorCode::unsupported,
                    "use_bidirectional_attention " + text::shown(boost::json::serialize(*sees)) +
                        " is not known",
                    "use a checkpoint in which text sees only what is before it");
  }

  /// Layers without a window may have larger heads, and fewer of keys.
  void read_heads() {
    const int dim = int(fields_.integer("global_head_dim", 1, limits::head_dim_max, 512));
    const int kv_heads =
        int(fields_.integer("num_global_key_value_heads", 1, limits::heads_max, c_.kv_heads));
    const bool same = fields_.boolean("attention_k_eq_v", false);
    const auto* listed = fields_.find("per_layer_config");
    for (int i = 0; i < c_.layers; ++i) {
      LayerConfig& layer = c_.mixers[std::size_t(i)];
      layer.keys_as_values = same && !slides(i);
      if (listed || slides(i))
        continue;
      layer.head_dim = dim;
      layer.kv_heads = same ? kv_heads : 0;
    }
    if (listed)
      read_listed(*listed);
    for (int i = 0; i < c_.layers; ++i)
      check_heads(i);
  }

  /// Reads an object with an object for each layer that differs from what the file says of all.
  void read_listed(const boost::json::value& listed) {
    if (!listed.is_object())
      return fields_.wrong(ErrorCode::corrupt, "per_layer_config is not an object", "");
    for (const auto& [number, value] : listed.get_object()) {
      const int layer = base::parse_number<int>(number).value_or(-1);
      if (layer < 0 || layer >= c_.layers || !value.is_object())
        return fields_.wrong(
            ErrorCode::corrupt,
            "per_layer_config holds " + text::shown(number) + ", which is no layer", "");
      read_listed(layer, value.get_object());
    }
  }

  void read_listed(int number, const boost::json::object& object) {
    text::JsonFields own(fmt::format("{}: per_layer_config of layer {}", fields_.where(), number),
                         object);
    LayerConfig& layer = c_.mixers[std::size_t(number)];
    layer.head_dim = int(own.integer("head_dim", 1, limits::head_dim_max, c_.head_dim));
    layer.kv_heads = int(own.integer("num_key_value_heads", 1, limits::heads_max, c_.kv_heads));
    for (const auto& each : object)
      if (own.unread(each.key()))
        own.wrong(ErrorCode::unsupported, text::shown(each.key()) + " is not known",
                  "use a checkpoint without it; results would be wrong");
    if (own.error())
      fields_.fail(*own.error());
  }

  void check_heads(int layer) {
    const int dim = c_.head_dim_in(layer);
    const int kv_heads = c_.kv_heads_in(layer);
    if (c_.heads % kv_heads != 0 || dim % 2 != 0 || dim != c_.head_dim_in(first_alike(layer)) ||
        std::int64_t(dim) * (c_.heads + 2 * kv_heads) > 4 * limits::hidden_max)
      fields_.wrong(ErrorCode::unsupported,
                    fmt::format("{} heads of {} dimensions in layer {}, {} of them of keys, are "
                                "not known",
                                c_.heads, dim, layer, kv_heads),
                    "use a checkpoint whose layers of one type are alike");
  }

  int first_alike(int layer) const {
    int first = 0;
    while (slides(first) != slides(layer))
      ++first;
    return first;
  }

  /// Rotations turn heads of their own sizes.
  void read_rotations() {
    ModelConfig sized = c_;
    sized.head_dim = c_.head_dim_in(c_.layers - 1);
    c_.ropes.front() = read_rope(fields_, sized, family_of(c_.architecture).rope);
    sized.head_dim = c_.head_dim;
    for (int i = 0; i < c_.layers; ++i)
      if (slides(i))
        sized.head_dim = c_.head_dim_in(i);
    c_.ropes.push_back(read_local_rope(fields_, sized, 10'000));
    for (int i = 0; i < c_.layers; ++i)
      c_.mixers[std::size_t(i)].rope = slides(i) ? 1 : 0;
  }

  /// The last layers read the keys and values of the last one before them that sees as much.
  void share_keys() {
    const int shared = int(fields_.integer("num_kv_shared_layers", 0, limits::layers_max, 0));
    const int own = c_.layers - shared;
    const bool wide = fields_.boolean("use_double_wide_mlp", false);
    for (int i = std::max(own, 0); i < c_.layers; ++i) {
      LayerConfig& layer = c_.mixers[std::size_t(i)];
      int source = own - 1;
      while (source >= 0 && slides(source) != slides(i))
        --source;
      if (source < 0 || c_.kv_heads_in(source) != c_.kv_heads_in(i))
        return fields_.wrong(ErrorCode::corrupt,
                             fmt::format("{} {} leaves no layer whose keys layer {} could read",
                                         fields_.spelled("num_kv_shared_layers"), shared, i),
                             "the checkpoint contradicts itself");
      layer.keys_of = source;
      layer.ffn = wide ? 2 * c_.ffn : 0;
    }
  }

  void read_inputs() {
    const char* const key = "hidden_size_per_layer_input";
    c_.layer_inputs = int(fields_.integer(key, 0, limits::hidden_max, fields_.says(key) ? 0 : 256));
    const auto rows = fields_.integer("vocab_size_per_layer_input", 1, 1 << 30, 262'144);
    if (c_.layer_inputs > 0 && rows != c_.vocabulary)
      fields_.wrong(
          ErrorCode::unsupported,
          fmt::format("vocab_size_per_layer_input {} is not vocab_size {}", rows, c_.vocabulary),
          "use a checkpoint in which both are the same");
  }

  /// The dense feed-forward becomes the shared expert.
  void read_experts() {
    const auto ffn = fields_.integer("moe_intermediate_size", 1, 8 * limits::hidden_max);
    read_mixture(fields_, c_, "num_experts", int(ffn), [](int) { return true; });
    c_.mixture->router.normalised = true;
    c_.mixture->shared_ffn = c_.ffn;
    c_.mixture->apart = true;
    if (std::ranges::any_of(c_.mixers, [](const LayerConfig& layer) { return layer.ffn > 0; }))
      fields_.wrong(ErrorCode::unsupported,
                    "use_double_wide_mlp is not known for layers with experts",
                    "use a checkpoint without it");
  }

  text::JsonFields& fields_;
  ModelConfig& c_;
};

} // namespace

void read_gemma4(text::JsonFields& fields, ModelConfig& c) {
  Gemma4(fields, c).read();
}

} // namespace paceline::models
