#include "apps/laboratory/score/comparison_report.hpp"

#include "apps/console/output.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <fmt/format.h>

namespace paceline::apps {
namespace {

boost::json::object figures_json(const WeightFigures& f) {
  boost::json::object object{
      {"weights", f.weights},
      {"weight_bytes", f.weight_bytes},
      {"perplexity", f.perplexity},
      {"kl_divergence", f.kl_divergence},
      {"same_top", f.same_top},
      {"self_acceptance", f.self_acceptance},
      {"draft_acceptance", boost::json::value_from(f.draft_acceptance)},
      {"same_format_draft_acceptance", boost::json::value_from(f.same_format_draft_acceptance)}};
  if (!f.activations.empty())
    object["activations"] = f.activations;
  if (!f.kv_cache_dtype.empty())
    object["kv_cache_dtype"] = f.kv_cache_dtype;
  object["scales"] = f.scales ? boost::json::value(to_string(*f.scales)) : boost::json::value();
  return object;
}

std::string formats(const WeightFigures& f) {
  std::string text = f.weights;
  if (!f.activations.empty())
    text += ", " + f.activations + " activations";
  return f.kv_cache_dtype.empty() ? text : text + ", " + f.kv_cache_dtype + " cache";
}

std::string share(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : std::string("-");
}

} // namespace

boost::json::object comparison_json(const WeightComparison& comparison,
                                    const std::vector<WeightFigures>& figures, std::size_t tokens) {
  boost::json::array formats;
  for (const WeightFigures& f : figures)
    formats.push_back(figures_json(f));
  boost::json::object object{{"target", model_json(comparison.target())},
                             {"context", comparison.context()},
                             {"scored_tokens", tokens - 1},
                             {"formats", std::move(formats)}};
  if (const auto draft = comparison.draft())
    object["draft"] = model_json(*draft);
  return object;
}

std::string comparison_text(const WeightComparison& comparison,
                            const std::vector<WeightFigures>& figures, std::size_t tokens) {
  const auto draft = comparison.draft();
  Table table({"weights", "scales", "size", "perplexity", "KL", "same top", "as draft", "draft",
               "draft too"});
  for (const WeightFigures& f : figures)
    table.add({formats(f), f.scales ? to_string(*f.scales) : "", human_bytes(f.weight_bytes),
               fmt::format("{:.3f}", f.perplexity), fmt::format("{:.5f}", f.kl_divergence),
               share(f.same_top), share(f.self_acceptance), share(f.draft_acceptance),
               share(f.same_format_draft_acceptance)});
  return fmt::format("{} on {} tokens, context {}{}\n\n", comparison.target().name, tokens,
                     comparison.context(), draft ? ", draft " + draft->name : "") +
         table.text();
}

} // namespace paceline::apps
