#include "apps/laboratory/plan/report.hpp"

#include "apps/console/output.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <fmt/format.h>
#include <map>

namespace paceline::apps::plan {
namespace {

std::string percent(const placement::Estimate& share) {
  return fmt::format("{:.2f} ± {:.2f}", 100 * share.mean, 100 * share.half_width);
}

std::string milliseconds(const placement::Estimate& seconds) {
  return fmt::format("{:.0f} ± {:.0f}", 1e3 * seconds.mean, 1e3 * seconds.half_width);
}

/// Returns the names of a group's models; copies have their number alone: "bert-{0,3,7}, moe".
std::string models_text(const Input& input, const placement::Group& group) {
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds;
  for (const int model : group.models) {
    const std::string& name = input.problem.models[std::size_t(model)].name;
    const auto dash = name.rfind('-');
    const bool copy = dash != name.npos && dash + 1 < name.size() &&
                      name.find_first_not_of("0123456789", dash + 1) == name.npos;
    const std::string kind = copy ? name.substr(0, dash + 1) : name;
    if (kinds.empty() || kinds.back().first != kind)
      kinds.push_back({kind, {}});
    kinds.back().second.push_back(copy ? name.substr(dash + 1) : "");
  }
  std::string text;
  for (const auto& [kind, copies] : kinds) {
    text += (text.empty() ? "" : ", ") + kind;
    if (copies.size() > 1)
      text += fmt::format("{{{}}}", fmt::join(copies, ","));
    else
      text += copies.front();
  }
  return text;
}

std::string devices_text(const Input& input, const placement::Group& group) {
  const std::string& first = input.device_names[std::size_t(group.devices.front())];
  return group.devices.size() == 1
             ? first
             : first + " .. " + input.device_names[std::size_t(group.devices.back())];
}

boost::json::object to_json(const placement::Estimate& estimate) {
  return {{"mean", estimate.mean}, {"half_width", estimate.half_width}};
}

boost::json::object to_json(const Input& input, const placement::Group& group) {
  boost::json::array devices;
  for (const int device : group.devices)
    devices.emplace_back(input.device_names[std::size_t(device)]);
  boost::json::array models;
  for (const int model : group.models)
    models.emplace_back(input.problem.models[std::size_t(model)].name);
  return {{"devices", std::move(devices)},
          {"pipeline", group.shape.pipeline},
          {"tensor", group.shape.tensor},
          {"models", std::move(models)}};
}

/// Returns the name of a quantile: "p50", "p99.9".
std::string quantile_name(double share) {
  return fmt::format("p{:g}", share);
}

/// Returns the quantiles of all placements, which are those of the cumulative distribution.
std::string latencies_text(const Report& report) {
  std::vector<std::string> heading{"latency, ms, of"};
  for (const double share : placement::latency_shares)
    heading.push_back(quantile_name(share));
  Table table(heading);
  for (const auto& [name, figures] : report.lines) {
    std::vector<std::string> cells{name};
    for (const placement::Estimate& latency : figures.latencies)
      cells.push_back(fmt::format("{:.0f}", 1e3 * latency.mean));
    table.add(cells);
  }
  return table.text();
}

boost::json::object latencies_json(const placement::Figures& figures) {
  boost::json::object all;
  for (std::size_t i = 0; i < figures.latencies.size(); ++i)
    all[quantile_name(placement::latency_shares[i])] = to_json(figures.latencies[i]);
  return all;
}

std::string groups_text(const Input& input, const placement::Placement& placement) {
  std::string text;
  for (const placement::Group& group : placement.groups)
    text += fmt::format("{:<5} {:<26} {}\n", placement::to_string(group.shape),
                        devices_text(input, group),
                        group.models.empty() ? "idle" : models_text(input, group));
  return text;
}

} // namespace

std::string report_text(const Input& input, const Report& report) {
  Table table({"placement", "answered in time, %", "mean latency, ms", "P99, ms"});
  for (const auto& [name, figures] : report.lines)
    table.add({name, percent(figures.attainment), milliseconds(figures.mean_latency),
               milliseconds(figures.p99_latency)});
  return table.text() +
         fmt::format("\nof {} simulated runs of {:g} s ({}), with intervals of 95 %; the plan took "
                     "{:.1f} s and {} simulations ({})\n\n",
                     report.runs, input.trace ? input.seconds / report.runs : input.seconds,
                     input.trace ? "pieces of the trace" : "drawn anew", report.planning_seconds,
                     report.selection.simulations, report.ended) +
         latencies_text(report) + "\nshape devices                    models\n" +
         groups_text(input, report.selection.placement);
}

boost::json::object report_json(const Input& input, const Report& report) {
  boost::json::object placements;
  for (const auto& [name, figures] : report.lines) {
    std::string key = name;
    std::replace(key.begin(), key.end(), ' ', '_');
    placements[key] = boost::json::object{{"attainment", to_json(figures.attainment)},
                                          {"mean_latency_seconds", to_json(figures.mean_latency)},
                                          {"p99_latency_seconds", to_json(figures.p99_latency)},
                                          {"latency_seconds", latencies_json(figures)}};
  }
  boost::json::array groups;
  for (const placement::Group& group : report.selection.placement.groups)
    groups.push_back(to_json(input, group));
  return {{"models", input.problem.models.size()},
          {"devices", input.problem.devices.count},
          {"seed", input.seed},
          {"traffic", input.trace ? "trace" : "synthetic"},
          {"runs", report.runs},
          {"run_seconds", input.trace ? input.seconds / report.runs : input.seconds},
          {"planning_seconds", report.planning_seconds},
          {"simulations", report.selection.simulations},
          {"ended", report.ended},
          {"placements", std::move(placements)},
          {"groups", std::move(groups)}};
}

} // namespace paceline::apps::plan
