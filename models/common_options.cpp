#include "models/common_options.hpp"

#include "gpu/limits.hpp"
#include "models/limits.hpp"
#include "models/rope.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace paceline::models {

int window_of(text::JsonFields& fields, int absent) {
  return int(fields.integer("sliding_window", 1, limits::context_max,
                            fields.says("sliding_window") ? 0 : absent));
}

std::vector<int> layer_types(text::JsonFields& fields, const ModelConfig& c,
                             std::initializer_list<const char*> types) {
  std::vector<int> out(std::size_t(c.layers), -1);
  const boost::json::value* list = fields.find("layer_types");
  const auto wrong = [&](const std::string& what) {
    fields.wrong(ErrorCode::unsupported, "layer_types " + what, "use a checkpoint of another kind");
    return std::vector<int>(std::size_t(c.layers), 0);
  };
  if (list && (!list->is_array() || list->get_array().size() != out.size()))
    return wrong("is not a list with an entry for every layer");
  for (std::size_t i = 0; list && i < out.size(); ++i) {
    const boost::json::value& type = list->get_array()[i];
    const auto at = std::ranges::find_if(types, [&](const char* name) { return type == name; });
    if (at == types.end())
      return wrong("holds " + text::shown(boost::json::serialize(type)) + ", which is not known");
    out[i] = int(at - types.begin());
  }
  return out;
}

void set_windows(text::JsonFields& fields, ModelConfig& c, int window,
                 const std::function<bool(int)>& sliding) {
  const std::vector<int> types = layer_types(fields, c, {"full_attention", "sliding_attention"});
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool slides = types[i] < 0 ? sliding(int(i)) : types[i] == 1;
    c.mixers[i].window = slides ? window : 0;
  }
}

void rotate_windows_apart(text::JsonFields& fields, ModelConfig& c, double theta) {
  c.ropes.push_back(read_local_rope(fields, c, theta));
  for (LayerConfig& layer : c.mixers)
    layer.rope = layer.window > 0 ? 1 : 0;
}

void rotate_nothing(ModelConfig& c) {
  c.ropes.clear();
  for (LayerConfig& layer : c.mixers)
    layer.rope = -1;
}

void check_recurrence(text::JsonFields& fields, const gpu::Recurrence& rule,
                      const char* value_heads, const char* key_heads) {
  if (rule.value_heads % rule.key_heads != 0)
    fields.wrong(ErrorCode::corrupt,
                 fmt::format("{} {} is not a multiple of {} {}", fields.spelled(value_heads),
                             rule.value_heads, fields.spelled(key_heads), rule.key_heads),
                 "the checkpoint contradicts itself");
  if (rule.channels() + rule.values() > 4 * limits::hidden_max)
    fields.wrong(ErrorCode::corrupt,
                 fmt::format("{} and {} recurrent heads are more than this build takes",
                             rule.key_heads, rule.value_heads),
                 "the checkpoint contradicts itself");
}

int width_of(text::JsonFields& fields, const char* key, int absent) {
  return int(fields.integer(key, 1, 8 * limits::hidden_max, absent));
}

void read_mixture(text::JsonFields& fields, ModelConfig& c, const char* count, int ffn,
                  const std::function<bool(int)>& mixes) {
  MixtureConfig mixture;
  mixture.experts = int(fields.integer(count, 1, limits::experts_max));
  mixture.top_k = int(fields.integer("num_experts_per_tok", 1, limits::experts_max));
  mixture.ffn = ffn;
  if (mixture.top_k > mixture.experts)
    fields.wrong(ErrorCode::corrupt,
                 fmt::format("{} {} is more than the {} experts",
                             fields.spelled("num_experts_per_tok"), mixture.top_k, mixture.experts),
                 "the checkpoint contradicts itself");
  for (int i = 0; i < c.layers; ++i)
    mixture.layers.push_back(mixes(i));
  c.mixture = std::move(mixture);
}

namespace {

/// Reads the groups to which a router limits the experts of a row.
void read_groups(text::JsonFields& fields, MixtureConfig& mixture) {
  gpu::RouterOptions& router = mixture.router;
  router.groups = int(fields.integer("n_group", 1, gpu::limits::router_groups_max, 1));
  router.groups_used = int(fields.integer("topk_group", 1, gpu::limits::router_groups_max, 1));
  const int size = mixture.experts / router.groups;
  if (router.groups_used > router.groups || mixture.experts % router.groups != 0 ||
      (router.groups > 1 && size < 2) || mixture.top_k > router.groups_used * size)
    fields.wrong(ErrorCode::corrupt,
                 fmt::format("{} experts in {} groups ({}), of which a row goes to {} ({}), give "
                             "it no {}",
                             mixture.experts, router.groups, fields.spelled("n_group"),
                             router.groups_used, fields.spelled("topk_group"), mixture.top_k),
                 "the checkpoint contradicts itself");
}

} // namespace

void read_sigmoid_router(text::JsonFields& fields, MixtureConfig& mixture, bool normalised) {
  gpu::RouterOptions& router = mixture.router;
  router.scores = gpu::RouterScores::sigmoid;
  router.normalised = fields.boolean("norm_topk_prob", normalised);
  router.scale = float(fields.number("routed_scaling_factor", 1e-6, 1e6, 1));
  read_groups(fields, mixture);
}

} // namespace paceline::models
