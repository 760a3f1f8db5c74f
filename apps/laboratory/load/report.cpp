#include "apps/laboratory/load/report.hpp"

#include "apps/console/output.hpp"
#include "apps/console/statistics.hpp"

#include <boost/json/array.hpp>
#include <cmath>
#include <fmt/format.h>

namespace paceline::apps::load {
namespace {

constexpr std::array percents{50, 90, 99};

void add_latency(boost::json::object& object, Latency latency, const Distribution& values) {
  const std::string name = std::string(to_string(latency)) + "_ms";
  object["mean_" + name] = 1e3 * values.mean();
  object["median_" + name] = 1e3 * values.quantile(0.5);
  object["std_" + name] = 1e3 * values.deviation();
  for (const int percent : percents)
    object[fmt::format("p{}_{}", percent, name)] = 1e3 * values.quantile(percent / 100.0);
}

/// Returns the committed tokens over the rows of target steps that were computed for them.
std::optional<double> row_use(const Run& run, const Figures& figures) {
  if (!run.counters || figures.rounds == 0 || figures.failed > 0 || run.interrupted)
    return std::nullopt; // The counters would include the windows of requests that did not end.
  return ratio(double(figures.output_tokens), run.counters->window_tokens + double(figures.rounds));
}

boost::json::object speculation_json(const Run& run, const Figures& figures) {
  const TargetState& counters = *run.counters;
  boost::json::object object{{"accepted", counters.accepted}};
  if (counters.judged > 0) {
    object["judged"] = counters.judged;
    object["acceptance_rate"] = ratio(counters.accepted, counters.judged);
  }
  if (counters.window_tokens > 0)
    object["window_tokens"] = counters.window_tokens;
  if (const auto use = row_use(run, figures))
    object["row_use"] = *use;
  object["accepted_by_position"] = boost::json::array(counters.accepted_by_position.begin(),
                                                      counters.accepted_by_position.end());
  return object;
}

void add_details(boost::json::object& object, const Run& run) {
  boost::json::array inputs;
  boost::json::array outputs;
  boost::json::array first_tokens;
  boost::json::array gaps;
  boost::json::array errors;
  for (const Record& record : run.records) {
    const bool completed = record.state == Record::State::completed;
    inputs.emplace_back(record.prompt_tokens);
    outputs.emplace_back(completed ? record.output_tokens : 0);
    first_tokens.emplace_back(completed ? record.first - record.sent : 0);
    gaps.emplace_back(boost::json::array(record.gaps.begin(), record.gaps.end()));
    errors.emplace_back(record.reason);
  }
  object["input_lens"] = std::move(inputs);
  object["output_lens"] = std::move(outputs);
  object["ttfts"] = std::move(first_tokens);
  object["itls"] = std::move(gaps);
  object["errors"] = std::move(errors);
}

std::string rates_text(const Figures& f) {
  Table table({"", ""});
  const auto add = [&](const char* name, const std::string& value) { table.add({name, value}); };
  add("requests completed", std::to_string(f.completed));
  if (f.failed > 0)
    add("failed", std::to_string(f.failed));
  add("most under way at once", std::to_string(f.peak_requests));
  add("seconds", fmt::format("{:.2f}", f.seconds));
  add("input tokens", std::to_string(f.input_tokens));
  add("output tokens", std::to_string(f.output_tokens));
  add("requests a second", fmt::format("{:.3f}", f.per_second(f.completed)));
  if (f.good)
    add("within the limits", fmt::format("{:.3f}", f.per_second(*f.good)));
  add("output tokens a second", fmt::format("{:.1f}", f.per_second(double(f.output_tokens))));
  add("in the best second", fmt::format("{:.1f}", f.peak_output_throughput));
  add("all tokens a second",
      fmt::format("{:.1f}", f.per_second(double(f.input_tokens + f.output_tokens))));
  const std::string text = table.text();
  return text.substr(text.find('\n') + 1); // This table has no headings.
}

std::string latencies_text(const Figures& figures) {
  Table table({"milliseconds", "mean", "P50", "P90", "P99"});
  const auto add = [&](const char* name, Latency latency) {
    const Distribution& values = figures.of(latency);
    std::vector<std::string> row{name, fmt::format("{:.2f}", 1e3 * values.mean())};
    for (const int percent : percents)
      row.push_back(fmt::format("{:.2f}", 1e3 * values.quantile(percent / 100.0)));
    table.add(std::move(row));
  };
  add("time to first token (ttft)", Latency::ttft);
  add("time per output token (tpot)", Latency::tpot);
  add("time between tokens (itl)", Latency::itl);
  add("end to end (e2el)", Latency::e2el);
  return table.text();
}

std::string target_text(const Run& run, const Figures& figures) {
  std::string text;
  if (run.queues)
    text += fmt::format("queue: {:.1f} waiting on average, {:.0f} at most; batch: {:.1f}, {:.0f}\n",
                        run.queues->mean_waiting, run.queues->max_waiting, run.queues->mean_running,
                        run.queues->max_running);
  if (!run.counters)
    return text;
  text += fmt::format("preemptions: {:.0f}", run.counters->preemptions);
  if (run.counters->judged > 0)
    text += fmt::format("; acceptance {:.3f}", ratio(run.counters->accepted, run.counters->judged));
  if (const auto use = row_use(run, figures))
    text += fmt::format("; row use {:.3f}", *use);
  return text + "\n";
}

std::string rate_text(double rate) {
  return std::isfinite(rate) ? fmt::format("{:.4g}", rate) : "all at once";
}

} // namespace

boost::json::value rate_json(double rate) {
  return std::isfinite(rate) ? boost::json::value(rate) : boost::json::value("inf");
}

boost::json::object figures_json(const Figures& figures) {
  const auto per_second = [&](std::int64_t count) { return figures.per_second(double(count)); };
  boost::json::object object{
      {"duration", figures.seconds},
      {"completed", figures.completed},
      {"failed", figures.failed},
      {"total_input_tokens", figures.input_tokens},
      {"total_output_tokens", figures.output_tokens},
      {"request_throughput", per_second(figures.completed)},
      {"output_throughput", per_second(figures.output_tokens)},
      {"total_token_throughput", per_second(figures.input_tokens + figures.output_tokens)},
      {"max_output_tokens_per_s", figures.peak_output_throughput},
      {"max_concurrent_requests", figures.peak_requests}};
  object["request_goodput"] =
      figures.good ? boost::json::value(per_second(*figures.good)) : boost::json::value();
  for (const Latency latency : all_latencies)
    add_latency(object, latency, figures.of(latency));
  auto& failures = object["failures"].emplace_object();
  for (const auto& [reason, count] : figures.failures)
    failures[reason] = count;
  return object;
}

boost::json::object run_json(const Run& run, const Figures& figures, bool detailed) {
  boost::json::object object = figures_json(figures);
  object["interrupted"] = run.interrupted;
  if (run.queues)
    object["queue"] = {{"mean_waiting", run.queues->mean_waiting},
                       {"max_waiting", run.queues->max_waiting},
                       {"mean_running", run.queues->mean_running},
                       {"max_running", run.queues->max_running}};
  if (run.counters) {
    object["preemptions"] = run.counters->preemptions;
    object["speculation"] = speculation_json(run, figures);
  }
  if (detailed)
    add_details(object, run);
  return object;
}

std::string run_text(const Run& run, const Figures& figures) {
  std::string text =
      rates_text(figures) + "\n" + latencies_text(figures) + "\n" + target_text(run, figures);
  for (const auto& [reason, count] : figures.failures)
    text += fmt::format("failed, {} of them: {}\n", count, reason);
  return text;
}

boost::json::object capacity_json(const Capacity& capacity,
                                  const std::vector<Objective>& objectives) {
  boost::json::object object{{"capacity", rate_json(capacity.rate)},
                             {"interrupted", capacity.interrupted}};
  auto& bounds = object["objectives"].emplace_object();
  for (const Objective& objective : objectives)
    bounds[objective.name + "_ms"] = 1e3 * objective.seconds;
  auto& trials = object["trials"].emplace_array();
  for (const Trial& trial : capacity.trials) {
    boost::json::object one{{"request_rate", rate_json(trial.rate)}, {"kept", trial.kept}};
    for (auto& [name, value] : figures_json(trial.figures))
      one.emplace(name, std::move(value));
    trials.push_back(std::move(one));
  }
  return object;
}

std::string capacity_text(const Capacity& capacity, const std::vector<Objective>& objectives) {
  std::vector<std::string> headings{"requests a second", "kept", "failed"};
  for (const Objective& objective : objectives)
    headings.push_back(fmt::format("{}, <= {:g} ms", objective.name, 1e3 * objective.seconds));
  Table table(headings);
  for (const Trial& trial : capacity.trials) {
    std::vector<std::string> row{rate_text(trial.rate), trial.kept ? "yes" : "no",
                                 std::to_string(trial.figures.failed)};
    for (const Objective& objective : objectives)
      row.push_back(fmt::format("{:.2f}", 1e3 * objective.of(trial.figures)));
    table.add(std::move(row));
  }
  return table.text() + (capacity.rate > 0
                             ? fmt::format("\ncapacity: {}\n", rate_text(capacity.rate))
                             : "\nno rate that was tried kept the objectives\n");
}

} // namespace paceline::apps::load
