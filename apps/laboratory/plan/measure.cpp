#include "apps/laboratory/plan/measure.hpp"

#include "apps/console/lookups.hpp"
#include "apps/laboratory/load/workload.hpp"
#include "base/clock.hpp"
#include "paceline/engine.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <random>
#include <variant>

namespace paceline::apps::plan {
namespace {

constexpr int alone_requests = 9;
constexpr int paced_requests = 24; ///< Requests behind those that fill the stages.

bool is_simulated(const std::string& device) {
  return device.starts_with("sim:");
}

class Measurement {
public:
  Measurement(Engine engine, const Measurable& what, const std::string& text)
      : what_(what), engine_(std::move(engine)), prompts_(engine_.tokenize(text, false)) {}

  Result<std::vector<double>> stages(int count) {
    if (const auto warm = alone(); !warm)
      return tl::unexpected(warm.error());
    std::vector<double> times;
    for (int i = 0; i < alone_requests; ++i) {
      const auto seconds = alone();
      if (!seconds)
        return tl::unexpected(seconds.error());
      times.push_back(*seconds);
    }
    std::ranges::nth_element(times, times.begin() + alone_requests / 2);
    const double all = times[alone_requests / 2];
    return pace(count).map([&](double between) {
      const double slowest = count > 1 ? std::clamp(between, all / count, all) : all;
      std::vector<double> stages(std::size_t(count), slowest);
      for (int stage = 0; stage + 1 < count; ++stage)
        stages[std::size_t(stage)] = (all - slowest) / (count - 1);
      return stages;
    });
  }

private:
  Request request() {
    Request one;
    const auto prompt = prompts_.cut(what_.prompt_tokens, random_);
    one.prompt_tokens = std::get<std::vector<TokenId>>(prompt);
    one.max_tokens = what_.output_tokens;
    one.ignore_eos = true;
    one.draft_scope = measured_scope("request", ++requests_); // All prompts share a few texts.
    return one;
  }

  Result<double> alone() {
    const double begin = base::seconds(engine_.now());
    return engine_.complete(request()).and_then([&](const Completion& answer) -> Result<double> {
      if (answer.end.error)
        return tl::unexpected(*answer.end.error);
      return base::seconds(engine_.now()) - begin;
    });
  }

  /// Returns the seconds between the ends of two requests.
  Result<double> pace(int stages) {
    std::vector<Stream> streams;
    for (int i = 0; i < stages + paced_requests; ++i) {
      auto stream = engine_.submit(request());
      if (!stream)
        return tl::unexpected(stream.error());
      streams.push_back(std::move(*stream));
    }
    double first = 0;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      while (streams[i].next())
        ;
      if (i + 1 == std::size_t(stages))
        first = base::seconds(engine_.now());
    }
    return (base::seconds(engine_.now()) - first) / paced_requests;
  }

  const Measurable& what_;
  std::mt19937_64 random_{1};
  int requests_ = 0;
  Engine engine_;
  load::PromptPool prompts_;
};

EngineOptions engine_options(const Measurable& what, placement::Shape shape,
                             const MeasureOptions& options) {
  EngineOptions engine;
  engine.target = what.checkpoint;
  if (!what.draft.empty())
    engine.drafters = {what.draft};
  const int stages = shape.pipeline;
  engine.devices.assign(what.devices.begin(), what.devices.begin() + shape.devices());
  engine.tensor_parallel_size = shape.tensor;
  engine.virtual_time = std::ranges::all_of(engine.devices, is_simulated);
  engine.max_num_seqs = stages;              // One sequence in each stage.
  engine.prefill_chunk = what.prompt_tokens; // No two prompts are in one pass.
  engine.max_waiting = paced_requests + stages;
  engine.progress = options.progress;
  return engine;
}

/// Whether the error says that the devices or the model cannot have this shape.
bool cannot_be(const Error& error) {
  return error.code == ErrorCode::invalid_argument || error.code == ErrorCode::unsupported;
}

} // namespace

Result<Costs> measure_costs(const Measurable& what, const MeasureOptions& options) {
  Costs costs;
  const int most = int(what.devices.size());
  for (int shards = 1; shards <= std::min(most, options.max_tensor); shards *= 2)
    for (int stages = 1; stages <= std::min(most / shards, options.max_pipeline); stages *= 2) {
      const placement::Shape shape{stages, shards};
      auto engine = Engine::open(engine_options(what, shape, options));
      if (!engine && shape.devices() > 1 && cannot_be(engine.error()))
        break; // The model has fewer layers or heads, for example.
      if (!engine)
        return tl::unexpected(engine.error());
      auto measured = Measurement(std::move(*engine), what, options.text).stages(stages);
      if (!measured)
        return tl::unexpected(measured.error());
      costs[shape] = std::move(*measured);
    }
  return costs;
}

} // namespace paceline::apps::plan
