#include "models/rope.hpp"

#include "models/limits.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <fmt/format.h>
#include <numbers>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace {

/// One rotation's fields, wherever they stand in the file.
struct Rope {
  text::JsonFields& fields;
  double theta;
  int dims;       ///< Dimensions that are rotated; even.
  int head;       ///< Dimensions of a head.
  double trained; ///< Positions in training, before any scaling.

  /// Returns the frequency of pair i, unscaled.
  double frequency(int i) const { return std::pow(theta, -2.0 * i / dims); }
  double factor() { return fields.number("factor", 1e-3, 1e6); }
};

/// Returns frequency(i) for every pair.
template <class F>
std::vector<float> for_pairs(const Rope& rope, const F& frequency) {
  std::vector<float> out(std::size_t(rope.dims / 2));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = float(frequency(int(i)));
  return out;
}

/// Scales as Llama 3.1: long waves are slowed down by the factor, short ones stay, and those
/// between are mixed.
RopeConfig llama3(Rope rope) {
  const double factor = rope.factor();
  const double low = rope.fields.number("low_freq_factor", 1e-3, 1e6);
  const double high = rope.fields.number("high_freq_factor", 1e-3, 1e6);
  if (high <= low)
    rope.fields.wrong(ErrorCode::corrupt, "high_freq_factor is not above low_freq_factor", "");
  return {for_pairs(rope,
                    [&](int i) {
                      const double frequency = rope.frequency(i);
                      const double waves = rope.trained * frequency / (2 * std::numbers::pi);
                      const double share = std::clamp((waves - low) / (high - low), 0.0, 1.0);
                      return frequency * (share + (1 - share) / factor);
                    }),
          1};
}

/// Scales as YaRN (Peng et al. 2023): a ramp over the pairs, and attention a little sharper.
RopeConfig yarn(Rope rope, int& context) {
  text::JsonFields& fields = rope.fields;
  const double factor = rope.factor();
  const double fast = fields.number("beta_fast", 1e-3, 1e6, 32);
  const double slow = fields.number("beta_slow", 1e-3, 1e6, 1);
  const double mscale = fields.number("mscale", 0, 1e3, 0);
  const double mscale_all = fields.number("mscale_all_dim", 0, 1e3, 0);
  const auto sharpness = [&](double scale) {
    return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1;
  };
  const double usual =
      mscale > 0 && mscale_all > 0 ? sharpness(mscale) / sharpness(mscale_all) : sharpness(1);
  const double sharper = fields.number("attention_factor", 1e-3, 1e3, usual);
  // The pair that turns so many times over the trained context.
  const auto pair_of = [&](double turns) {
    return rope.dims * std::log(rope.trained / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = pair_of(fast);
  double high = pair_of(slow);
  if (fields.boolean("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rope.dims - 1.0);
  if (low == high)
    high += 0.001;
  context = int(std::clamp(rope.trained * factor, double(context), double(limits::context_max)));
  return {for_pairs(rope,
                    [&](int i) {
                      const double slowed = std::clamp((i - low) / (high - low), 0.0, 1.0);
                      return rope.frequency(i) * (1 - slowed + slowed / factor);
                    }),
          float(sharper)};
}

/// Rotates as Gemma 4 does: pairs are halves of whole heads, of which those behind the rotated part
/// stand still.
RopeConfig proportional(Rope rope) {
  const double factor = rope.fields.number("factor", 1e-3, 1e6, 1);
  std::vector<float> frequencies(std::size_t(rope.head / 2), 0.0f);
  for (int i = 0; i < rope.dims / 2; ++i)
    frequencies[std::size_t(i)] = float(std::pow(rope.theta, -2.0 * i / rope.head) / factor);
  return {std::move(frequencies), 1};
}

/// Returns a factor of its own for each pair.
std::vector<double> pair_factors(Rope& rope, const char* key) {
  const json::value* value = rope.fields.find(key);
  const json::array* list = value ? value->if_array() : nullptr;
  std::vector<double> out(std::size_t(rope.dims / 2), 1.0);
  bool right = list && list->size() == out.size();
  for (std::size_t i = 0; right && i < out.size(); ++i) {
    out[i] = (*list)[i].is_number() ? (*list)[i].to_number<double>() : 0;
    right = out[i] >= 1e-3 && out[i] <= 1e6;
  }
  if (!right)
    rope.fields.wrong(ErrorCode::corrupt,
                      fmt::format("{} is not a list of {} numbers from 0.001 to 1000000",
                                  rope.fields.spelled(key), out.size()),
                      "the checkpoint contradicts itself");
  return out;
}

/// Scales as LongRoPE (Ding et al. 2024): each pair by a factor of its own. Behind the positions of
/// training it would turn all positions by other factors, which would undo what the cache holds, so
/// contexts end there.
RopeConfig longrope(Rope rope, int& context) {
  const double stretch = context / rope.trained;
  const double usual =
      stretch <= 1 ? 1.0 : std::sqrt(1 + std::log(stretch) / std::log(rope.trained));
  const double sharper = rope.fields.number("attention_factor", 1e-3, 1e3, usual);
  const std::vector<double> factors = pair_factors(rope, "short_factor");
  context = std::min(context, int(rope.trained));
  return {for_pairs(rope, [&](int i) { return rope.frequency(i) / factors[std::size_t(i)]; }),
          float(sharper)};
}

RopeConfig rotation(Rope rope, const std::string& type, int& context) {
  if (type == "llama3")
    return llama3(rope);
  if (type == "yarn")
    return yarn(rope, context);
  if (type == "proportional")
    return proportional(rope);
  if (type == "longrope" || type == "su")
    return longrope(rope, context);
  const double factor = type == "linear" ? rope.factor() : 1;
  if (type == "dynamic")
    rope.fields.wrong(
        ErrorCode::unsupported,
        fmt::format("{} {} turns by the current length, which would undo what the "
                    "cache holds",
                    rope.fields.spelled("rope_type"), type),
        "use a checkpoint whose rope_type is default, linear, llama3, yarn, longrope or "
        "proportional");
  else if (type != "default" && type != "linear")
    rope.fields.wrong(
        ErrorCode::unsupported,
        fmt::format("{} {} is not known", rope.fields.spelled("rope_type"), text::shown(type)),
        "use a checkpoint whose rope_type is default, linear, llama3, yarn, longrope or "
        "proportional");
  return {for_pairs(rope, [&](int i) { return rope.frequency(i) / factor; }), 1};
}

/// Returns the positions in training. A value outside the rotation's object has precedence over one
/// inside, unless there are several rotations.
double trained_positions(text::JsonFields& fields, text::JsonFields& inner,
                         const ModelConfig& config, const RopeRules& rules) {
  constexpr const char* key = "original_max_position_embeddings";
  const auto own = inner.integer(key, 1, limits::context_max, config.context);
  return double(rules.by_layer_type ? own : fields.integer(key, 1, limits::context_max, own));
}

/// Reads a rotation from the object that describes it.
RopeConfig read_object(text::JsonFields& fields, const std::string& key, const json::object& object,
                       ModelConfig& config, double theta, const RopeRules& rules) {
  // A file of another format has no objects, but names of its own for what is in this one.
  const bool flat = fields.spellings().contains("rope_type");
  text::JsonFields inner(flat ? fields.where() : fields.where() + ": " + key, object,
                         fields.spellings());
  theta = inner.number("rope_theta", rope_theta_min, rope_theta_max, theta);
  const double rotated = inner.number("partial_rotary_factor", 0, 1,
                                      fields.number("partial_rotary_factor", 0, 1, rules.rotated));
  const std::string type = inner.string("rope_type", inner.string("type", "default"));
  if (rotated != 1 && !rules.partial && type != "proportional")
    inner.wrong(ErrorCode::unsupported,
                fmt::format("{} is not known for {}", inner.spelled("partial_rotary_factor"),
                            config.architecture),
                "use a checkpoint that rotates whole heads");
  const int part = int(config.head_dim * rotated);
  const int dims =
      (*rules.rotated_key == '\0' ? part
                                  : int(fields.integer(rules.rotated_key, 2, config.head_dim))) /
      2 * 2;
  const double trained = trained_positions(fields, inner, config, rules);
  RopeConfig out = rotation({inner, theta, dims, config.head_dim, trained}, type, config.context);
  // This option scales queries behind the positions of training, which no operation here does.
  if (inner.number("llama_4_scaling_beta", 0, 1e3, 0) > 0)
    config.context = std::min(config.context, int(trained));
  if (type != "default" && type != "longrope" && type != "su" && !rules.scaled)
    inner.wrong(ErrorCode::unsupported,
                fmt::format("{} {} is not known for {}", inner.spelled("rope_type"),
                            text::shown(type), config.architecture),
                "use a checkpoint whose rope_type is default or longrope");
  if (inner.error())
    fields.fail(*inner.error());
  return out;
}

const json::object* object_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value ? value->if_object() : nullptr;
}

/// Returns the object for layers that see all positions, in the form of this family; null: the file
/// has the form of other families, or says it in two places.
const json::object* whole_of(text::JsonFields& fields, std::string_view key,
                             const json::object& object, const RopeRules& rules) {
  const json::object* by_type = object_in(object, "full_attention");
  if (rules.by_layer_type && key == "rope_parameters" && !object.empty())
    return by_type;
  const bool twice = rules.by_layer_type && key == "rope_scaling" && fields.find("rope_parameters");
  return by_type || twice ? nullptr : &object;
}

} // namespace

RopeConfig read_rope(text::JsonFields& fields, ModelConfig& config, const RopeRules& rules) {
  const double theta = fields.number("rope_theta", rope_theta_min, rope_theta_max, rules.theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json::value* value = fields.find(key);
    const json::object* object = value ? value->if_object() : nullptr;
    const json::object* whole = object ? whole_of(fields, key, *object, rules) : nullptr;
    if (whole)
      return read_object(fields, key, *whole, config, theta, rules);
    if (object)
      fields.wrong(ErrorCode::unsupported,
                   fmt::format("{} is not known for {} as it stands", key, config.architecture),
                   rules.by_layer_type
                       ? "give full_attention and sliding_attention in rope_parameters"
                       : "give one object for all layers");
    else if (value)
      fields.wrong(ErrorCode::corrupt, fmt::format("{} is not an object", key), "");
  }
  const json::object scaled{{"rope_type", "yarn"},
                            {"factor", rules.yarn_factor},
                            {"truncate", false},
                            {"original_max_position_embeddings", rules.yarn_trained}};
  const json::object proportional{{"rope_type", "proportional"},
                                  {"partial_rotary_factor", rules.proportional}};
  return read_object(fields, "rope_theta",
                     rules.yarn_factor > 0    ? scaled
                     : rules.proportional > 0 ? proportional
                                              : json::object(),
                     config, theta, rules);
}

RopeConfig read_local_rope(text::JsonFields& fields, ModelConfig& config, double theta) {
  const json::value* value = fields.find("rope_parameters");
  const json::object* local =
      value && value->is_object() ? object_in(value->get_object(), "sliding_attention") : nullptr;
  return read_object(fields, "rope_parameters", local ? *local : json::object(), config, theta,
                     {.by_layer_type = true});
}

} // namespace paceline::models
