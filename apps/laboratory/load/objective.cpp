#include "apps/laboratory/load/objective.hpp"

#include "base/parse_number.hpp"

namespace paceline::apps::load {
namespace {

/// Reads "p99" as 0.99, "median" as 0.5, "mean" as none. False: the text is no statistic.
bool parse_statistic(std::string_view text, std::optional<double>& share) {
  if (text == "mean")
    return true;
  if (text == "median") {
    share = 0.5;
    return true;
  }
  if (!text.starts_with('p'))
    return false;
  text.remove_prefix(1);
  const auto percent = base::take_number<double>(text);
  share = percent.value_or(-1) / 100;
  return text.empty() && *share >= 0 && *share <= 1;
}

} // namespace

std::optional<double> parse_milliseconds(std::string_view text) {
  const auto number = base::take_number<double>(text);
  if (!number || !(*number > 0) || *number > 1e9)
    return std::nullopt;
  if (text.empty() || text == "ms")
    return *number / 1e3;
  return text == "s" ? number : std::nullopt;
}

std::optional<LatencyLimit> parse_limit(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return std::nullopt;
  const auto latency = parse_latency(text.substr(0, colon));
  const auto seconds = parse_milliseconds(text.substr(colon + 1));
  if (!latency || !seconds)
    return std::nullopt;
  return LatencyLimit{*latency, *seconds};
}

double Objective::of(const Figures& figures) const {
  const Distribution& latencies = figures.of(latency);
  return share ? latencies.quantile(*share) : latencies.mean();
}

std::optional<Objective> parse_objective(std::string_view text) {
  const std::size_t underscore = text.find('_');
  if (underscore == std::string_view::npos)
    return std::nullopt;
  Objective objective;
  const auto limit = parse_limit(text.substr(underscore + 1));
  if (!limit || !parse_statistic(text.substr(0, underscore), objective.share))
    return std::nullopt;
  objective.name = text.substr(0, text.find(':'));
  objective.latency = limit->latency;
  objective.seconds = limit->seconds;
  return objective;
}

} // namespace paceline::apps::load
