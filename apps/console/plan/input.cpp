#include "apps/console/plan/input.hpp"

#include "apps/console/input.hpp"
#include "apps/console/limits.hpp"
#include "apps/console/plan/fields.hpp"
#include "base/parse_number.hpp"
#include "placement/cost.hpp"
#include "placement/limits.hpp"
#include "placement/trace.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace paceline::apps::plan {
namespace {

namespace limits = placement::limits;
constexpr double most = HUGE_VAL;
/// A plan is made for so many times the traffic of each run that judges it, so that rare bursts
/// count.
constexpr double planned_runs = 3;
constexpr double least = 1e-6; ///< Least value of numbers that must be above 0.
constexpr int tokens_max = 1 << 20;

/// Values for models that do not have their own.
struct Defaults {
  std::optional<double> objective_scale;
  std::optional<double> objective_ms;
  placement::Traffic traffic; ///< Its rate is that of all models together.
  double power_law = 0;
};

class Reader {
public:
  Reader(std::string file, const Measure& measure) : file_(std::move(file)), measure_(measure) {}

  Input read(const toml::table& table) {
    Fields top(table, "the file");
    input_.seconds = top.number("seconds", least, 1e7).value_or(input_.seconds);
    input_.seed = std::uint64_t(top.whole("seed", 0, INT64_MAX).value_or(0));
    const toml::table* devices = top.table("devices");
    top.required("[devices]", devices ? std::optional(true) : std::nullopt,
                 "say how many there are, and how much memory they have");
    read_devices(*devices);
    const toml::table* traffic = top.table("traffic");
    const auto models = top.tables("models");
    if (models.empty())
      throw Wrong{table.source(), "there is no model", "write [[models]] and its fields"};
    if (const toml::table* objective = top.table("objective"))
      read_objective(*objective);
    if (traffic)
      read_traffic(*traffic);
    for (const toml::table* model : models)
      read_models(*model);
    top.end();
    measure_contention(*devices);
    share_rate();
    if (traffic)
      read_trace(*traffic);
    check_requests(table.source());
    return std::move(input_);
  }

private:
  void read_devices(const toml::table& table) {
    Fields fields(table, "[devices]");
    placement::Devices& devices = input_.problem.devices;
    const auto count = fields.whole("count", 1, limits::devices_max);
    input_.device_names = fields.texts("names");
    if (count && !input_.device_names.empty())
      fields.wrong("count", "stands beside names", "give one of them");
    if (input_.device_names.empty())
      for (int i = 0; i < fields.required("count", count, "give it, or names"); ++i)
        input_.device_names.push_back(fmt::format("device-{}", i));
    auto sorted = input_.device_names;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() ||
        sorted.size() > std::size_t(limits::devices_max))
      fields.wrong("names", "has a device twice, or too many", "name each one once");
    devices.count = int(input_.device_names.size());
    devices.memory_bytes =
        fields.required("memory", fields.memory("memory"), "give each device's, such as \"16G\"");
    devices.hop_seconds = fields.number("hop_ms", 0, most).value_or(0) / 1e3;
    devices.tensor_overhead = fields.number("tensor_overhead", 0, 1).value_or(0);
    devices.imbalance = fields.number("imbalance", 0, 1).value_or(0);
    devices.contention = read_contention(fields);
    fields.end();
  }

  void read_objective(const toml::table& table) {
    Fields fields(table, "[objective]");
    defaults_.objective_scale = fields.number("scale", least, most);
    defaults_.objective_ms = fields.number("ms", least, most);
    if (defaults_.objective_scale && defaults_.objective_ms)
      fields.wrong("ms", "stands beside scale", "give one of them");
    fields.end();
  }

  static void read_shape(Fields& fields, placement::Traffic& traffic) {
    traffic.cv = fields.number("cv", 0.05, 100).value_or(traffic.cv);
    traffic.on_seconds = fields.number("on_seconds", least, most).value_or(traffic.on_seconds);
    traffic.off_seconds = fields.number("off_seconds", 0, most).value_or(traffic.off_seconds);
    if (traffic.off_seconds > 0 && traffic.on_seconds <= 0)
      fields.wrong("off_seconds", "stands alone", "give on_seconds, too");
  }

  void read_traffic(const toml::table& table) {
    Fields fields(table, "[traffic]");
    if (fields.text("trace")) {
      read_replay(fields);
      fields.end();
      return;
    }
    defaults_.traffic.rate = fields.number("rate", 0, most).value_or(0);
    defaults_.power_law = fields.number("power_law", 0, 10).value_or(0);
    read_shape(fields, defaults_.traffic);
    fields.end();
  }

  /// Reads what stands beside a trace.
  void read_replay(Fields& fields) {
    replay_.from_seconds = fields.number("from_seconds", 0, most).value_or(replay_.from_seconds);
    replay_.to_seconds = fields.number("to_seconds", least, most).value_or(replay_.to_seconds);
    if (replay_.to_seconds <= replay_.from_seconds)
      fields.wrong("to_seconds", "is not behind from_seconds", "give the end of a part");
    replay_.rate_scale = fields.number("rate_scale", 1e-9, 1e9).value_or(replay_.rate_scale);
    replay_.cv_scale = fields.number("cv_scale", 0.01, 100).value_or(replay_.cv_scale);
    replay_.window_seconds =
        fields.number("window_seconds", 1e-3, most).value_or(replay_.window_seconds);
  }

  void read_models(const toml::table& table) {
    Fields fields(table, "[[models]]");
    placement::Model model;
    model.name = fields.required("name", fields.text("name"), "give each model one");
    const auto copies = fields.whole("copies", 1, limits::models_max).value_or(1);
    model.memory_bytes =
        fields.required("memory", fields.memory("memory"), "give its weights', such as \"13.4G\"");
    const auto checkpoint = fields.text("checkpoint").value_or("");
    const auto draft = fields.text("draft").value_or("");
    Measurable what{checkpoint, draft, 0, 0, input_.device_names};
    read_latency(fields, what, model);
    if (!checkpoint.empty())
      measurable_.insert(measurable_.end(), std::size_t(copies), what);
    read_own_objective(fields, model);
    if (const toml::table* stages = fields.table("stages_ms"))
      read_stages(*stages, model);
    placement::Traffic traffic = defaults_.traffic;
    const auto rate = fields.number("rate", 0, most);
    read_shape(fields, traffic);
    fields.end();
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      placement::Model one = model;
      if (copies > 1)
        one.name += fmt::format("-{}", copy);
      if (!names_.insert(one.name).second || names_.size() > std::size_t(limits::models_max))
        fields.wrong("name", "is another model's, too, or there are too many models",
                     "give each one a name of its own");
      input_.problem.models.push_back(std::move(one));
      input_.checkpoints.push_back(checkpoint);
      input_.drafts.push_back(draft);
      input_.traffic.push_back(traffic);
      own_rates_.push_back(rate);
    }
  }

  /// Takes the latency from the file, or measures it.
  void read_latency(Fields& fields, Measurable& what, placement::Model& model) const {
    const auto latency_ms = fields.number("latency_ms", least, most);
    what.prompt_tokens = int(fields.whole("prompt_tokens", 1, tokens_max).value_or(256));
    what.output_tokens = int(fields.whole("output_tokens", 1, tokens_max).value_or(64));
    fields.numbers("batch_ms", 0, most); // It is there, whether it is read or measured.
    if (!measure_.costs || what.checkpoint.empty()) {
      model.latency_seconds =
          fields.required("latency_ms", latency_ms, "give a request's time on one device") / 1e3;
      model.growth = read_growth(fields, "batch_ms", *latency_ms);
      return;
    }
    auto costs = measure_.costs(what);
    if (!costs)
      fields.wrong("checkpoint", "cannot be measured: " + costs.error().message,
                   costs.error().hint);
    model.measured = std::move(*costs);
    const placement::StageCosts& alone = model.measured.at({1, 1});
    model.latency_seconds = alone.seconds.front();
    model.growth = alone.growth;
  }

  /// Measures by how much models slow each other, unless the file says it.
  void measure_contention(const toml::table& devices) {
    if (!measure_.contention || devices.contains("contention") || measurable_.size() < 2)
      return;
    const auto contention = measure_.contention(measurable_);
    if (!contention)
      throw Wrong{devices.source(),
                  "[devices]: contention cannot be measured: " + contention.error().message,
                  "give it"};
    input_.problem.devices.contention = *contention;
  }

  void read_own_objective(Fields& fields, placement::Model& model) const {
    auto ms = fields.number("objective_ms", least, most);
    auto scale = fields.number("objective_scale", least, most);
    if (ms && scale)
      fields.wrong("objective_ms", "stands beside objective_scale", "give one of them");
    if (!ms && !scale) {
      ms = defaults_.objective_ms;
      scale = defaults_.objective_scale;
    }
    if (ms)
      model.objective_seconds = *ms / 1e3;
    else if (scale)
      model.objective_seconds = *scale * model.latency_seconds;
  }

  static void read_stages(const toml::table& table, placement::Model& model) {
    Fields fields(table, "stages_ms");
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      const placement::Shape shape = shape_of(fields, name);
      auto stages = fields.numbers(name.c_str(), least, most);
      if (int(stages.size()) != shape.pipeline)
        fields.wrong(name.c_str(), fmt::format("has {} stages", stages.size()),
                     fmt::format("give {} times", shape.pipeline));
      for (double& stage : stages)
        stage /= 1e3;
      model.measured[shape] = {std::move(stages), placement::growth_in(shape, model)};
    }
  }

  /// Reads a shape such as "4x2".
  static placement::Shape shape_of(const Fields& fields, const std::string& name) {
    const std::string_view text = name;
    const auto cross = std::min(text.find('x'), text.size());
    const std::string_view tensor = text.substr(std::min(cross + 1, text.size()));
    const placement::Shape shape{base::parse_number<int>(text.substr(0, cross)).value_or(0),
                                 base::parse_number<int>(tensor).value_or(0)};
    if (shape.pipeline < 1 || shape.tensor < 1 || shape.pipeline > limits::pipeline_max ||
        shape.tensor > limits::tensor_max)
      fields.wrong(name.c_str(), "is no shape",
                   "write stages x devices of each, such as \"2x1\" = [51, 52]");
    return shape;
  }

  /// Gives the models without a rate of their own their shares.
  void share_rate() {
    const auto sharing = int(std::count(own_rates_.begin(), own_rates_.end(), std::nullopt));
    const auto shares =
        placement::power_law_rates(defaults_.traffic.rate, sharing, defaults_.power_law);
    std::size_t next = 0;
    for (std::size_t m = 0; m < own_rates_.size(); ++m)
      input_.traffic[m].rate = own_rates_[m] ? *own_rates_[m] : shares[next++];
  }

  void read_trace(const toml::table& table) {
    Fields fields(table, "[traffic]");
    const auto name = fields.text("trace");
    if (!name)
      return;
    const auto path = (std::filesystem::path(file_).parent_path() / *name).string();
    std::vector<std::string> models;
    for (const placement::Model& model : input_.problem.models)
      models.push_back(model.name);
    const auto text = read_text_file(path, apps::limits::trace_bytes);
    if (!text)
      fields.wrong("trace", "cannot be read: " + text.error().message, text.error().hint);
    auto part = placement::read_trace(*text, models).and_then([&](const placement::Trace& trace) {
      return placement::replay(trace, replay_, input_.seed);
    });
    if (!part)
      fields.wrong("trace", fmt::format("{}: {}", path, part.error().message), part.error().hint);
    input_.trace = std::move(*part);
    input_.seconds = input_.trace->seconds;
    input_.traffic.clear();
  }

  void check_requests(const toml::source_region& at) const {
    if (input_.trace)
      return;
    double rate = 0;
    double periods = 0; // Periods a second.
    for (const placement::Traffic& traffic : input_.traffic) {
      rate += traffic.rate;
      if (traffic.rate > 0 && traffic.off_seconds > 0)
        periods += 1 / (traffic.on_seconds + traffic.off_seconds);
    }
    if (rate <= 0)
      throw Wrong{at, "no model is asked for anything",
                  "give rate in [traffic] or [[models]], or trace in [traffic]"};
    const double most_requests = double(limits::arrivals_max) / planned_runs;
    if (rate * input_.seconds > most_requests)
      throw Wrong{at, fmt::format("{:g} requests are too many", rate * input_.seconds),
                  fmt::format("make seconds times rate at most {:.0f}", most_requests)};
    if (periods * input_.seconds > most_requests)
      throw Wrong{at, fmt::format("{:g} periods are too many", periods * input_.seconds),
                  "make on_seconds and off_seconds longer"};
  }

  std::string file_;
  const Measure& measure_;
  Input input_;
  Defaults defaults_;
  std::vector<Measurable> measurable_; ///< Models that have a checkpoint.
  std::set<std::string> names_;
  placement::Replay replay_;
  std::vector<std::optional<double>> own_rates_; ///< Rates by model; none: a share.
};

} // namespace

placement::Workload Input::workload() const {
  return trace ? *trace : placement::draw_workload(traffic, planned_runs * seconds, seed);
}

std::vector<placement::Workload> Input::runs(int count) const {
  return trace ? placement::split(*trace, count) : draws(count, 1);
}

std::vector<placement::Workload> Input::validation(int count) const {
  constexpr std::uint64_t apart = 1'000'000; // Distance from the seeds of runs.
  return trace ? std::vector<placement::Workload>() : draws(count, apart);
}

std::vector<placement::Workload> Input::draws(int count, std::uint64_t first) const {
  std::vector<placement::Workload> all;
  for (int run = 0; run < count; ++run)
    all.push_back(placement::draw_workload(traffic, seconds, seed + first + std::uint64_t(run)));
  return all;
}

Result<Input> parse_input(const std::string& text, const std::string& file,
                          const Measure& measure) {
  Input input;
  const auto read = read_toml(
      text, file, [&](const toml::table& table) { input = Reader(file, measure).read(table); });
  if (!read)
    return tl::unexpected(read.error());
  return input;
}

Result<Input> read_input(const std::string& file, const Measure& measure) {
  return read_text({{}, file}).and_then([&](const std::string& text) {
    return parse_input(text, file, measure);
  });
}

} // namespace paceline::apps::plan
