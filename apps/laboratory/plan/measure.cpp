#include "apps/laboratory/plan/measure.hpp"

#include "apps/console/lookups.hpp"
#include "apps/console/options.hpp"
#include "apps/console/session.hpp"
#include "apps/console/statistics.hpp"
#include "apps/laboratory/load/workload.hpp"
#include "base/clock.hpp"
#include "paceline/engine.hpp"
#include "placement/limits.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <fmt/format.h>
#include <random>
#include <thread>
#include <variant>

namespace paceline::apps::plan {
namespace {

/// Requests at the least, and the seconds that they take: a few milliseconds tell as much of the
/// machine's other work as of the model.
constexpr int alone_requests = 9;
constexpr int paced_requests = 24; ///< Behind those that are under way first.
constexpr double measured_seconds = 0.5;
constexpr int most_requests = 1000; ///< A simulated device may take no time.
/// Batches of twice the size count as none where they are hardly faster than two: with prompts that
/// are read one after the other, requests do not get on alike.
constexpr double hardly_faster = 1.75;

class Measurement {
public:
  Measurement(Engine engine, const Measurable& what, const std::string& text)
      : what_(what), engine_(std::move(engine)), prompts_(engine_.tokenize(text, false)) {}

  /// at_once: requests that the engine works on, at most.
  Result<placement::StageCosts> costs(int stages, int at_once) {
    if (const auto warm = median_alone(); !warm)
      return tl::unexpected(warm.error());
    const auto median = median_alone();
    if (!median)
      return tl::unexpected(median.error());
    const double all = *median;
    const auto between = pace(stages);
    if (!between)
      return tl::unexpected(between.error());
    const double slowest = stages > 1 ? std::clamp(*between, all / stages, all) : all;
    placement::StageCosts costs{std::vector<double>(std::size_t(stages), slowest)};
    for (int stage = 0; stage + 1 < stages; ++stage)
      costs.seconds[std::size_t(stage)] = (all - slowest) / (stages - 1);
    return growth(stages, at_once, stages * slowest).map([&](std::vector<double> growth) {
      costs.growth = std::move(growth);
      return std::move(costs);
    });
  }

  /// Returns the seconds between the ends of two requests while so many are under way.
  Result<double> pace(int under_way) {
    const int least = under_way + std::max(paced_requests, 2 * under_way);
    std::deque<Stream> streams;
    double first = 0;
    int ended = 0;
    const auto goes_on = [&] {
      return ended < least ||
             (ended < most_requests && base::seconds(engine_.now()) < first + measured_seconds);
    };
    for (int sent = 0; goes_on(); ++ended) {
      for (; sent < ended + under_way; ++sent) {
        auto stream = engine_.submit(request());
        if (!stream)
          return tl::unexpected(stream.error());
        streams.push_back(std::move(*stream));
      }
      while (streams.front().next())
        ;
      streams.pop_front();
      if (ended + 1 == under_way)
        first = base::seconds(engine_.now());
    }
    return (base::seconds(engine_.now()) - first) / (ended - under_way);
  }

  Result<double> alone() {
    const double begin = base::seconds(engine_.now());
    return answer_of(engine_, request()).map([&](const Completion&) {
      return base::seconds(engine_.now()) - begin;
    });
  }

private:
  /// Returns the seconds of a request that is alone, in the median.
  Result<double> median_alone() {
    std::vector<double> times;
    double sum = 0;
    while (times.size() < alone_requests ||
           (sum < measured_seconds && times.size() < most_requests)) {
      const auto seconds = alone();
      if (!seconds)
        return tl::unexpected(seconds.error());
      times.push_back(*seconds);
      sum += *seconds;
    }
    return median(std::move(times));
  }

  /// Returns by how much stages grow in batches of 2, 4, ... as long as these pay. alone: the
  /// seconds of a request with one under way in each stage.
  Result<std::vector<double>> growth(int stages, int at_once, double alone) {
    std::vector<double> all;
    double before = 1;
    for (int count = 2 * stages; count <= at_once; count *= 2) {
      const auto between = pace(count);
      if (!between)
        return tl::unexpected(between.error());
      const double grown = std::max(*between * count / alone, before);
      if (grown > hardly_faster * before)
        break;
      all.push_back(before = grown);
    }
    return all;
  }

  Request request() {
    Request one;
    const auto prompt = prompts_.cut(what_.prompt_tokens, random_);
    one.prompt_tokens = std::get<std::vector<TokenId>>(prompt);
    one.max_tokens = what_.output_tokens;
    one.ignore_eos = true;
    one.draft_scope = measured_scope("request", ++requests_); // All prompts share a few texts.
    return one;
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
  engine.devices.assign(what.devices.begin(), what.devices.begin() + shape.devices());
  engine.tensor_parallel_size = shape.tensor;
  engine.virtual_time = simulated(engine);
  engine.max_num_seqs = std::max(engine.max_num_seqs, shape.pipeline); // As `serve` has it.
  engine.prefill_chunk = what.prompt_tokens; // No two prompts are in one pass.
  engine.progress = options.progress;
  return engine;
}

/// Returns how much longer than half as fast, as two busy models would be that share a device, the
/// first one is beside the second.
Result<double> slowed(Measurement& one, Measurement& other) {
  const auto by_itself = one.pace(1);
  if (!by_itself)
    return by_itself;
  std::atomic<bool> enough = false;
  Result<double> beside = 0;
  {
    const std::jthread busy([&] {
      while (!enough && other.alone())
        ;
    });
    beside = one.pace(1);
    enough = true;
  }
  return beside.map([&](double seconds) {
    return std::clamp(seconds / (2 * *by_itself), placement::limits::contention_min,
                      placement::limits::contention_max);
  });
}

Result<Measurement> open_on_one(const Measurable& what, const MeasureOptions& options) {
  return Engine::open(engine_options(what, {1, 1}, options)).map([&](Engine engine) {
    return Measurement(std::move(engine), what, options.text);
  });
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
      EngineOptions how = engine_options(what, shape, options);
      const int at_once = how.max_num_seqs;
      auto engine = Engine::open(std::move(how));
      if (!engine && shape.devices() > 1 && cannot_be(engine.error()))
        break; // The model has fewer layers or heads, for example.
      if (!engine)
        return tl::unexpected(engine.error());
      auto measured = Measurement(std::move(*engine), what, options.text).costs(stages, at_once);
      if (!measured)
        return tl::unexpected(measured.error());
      costs[shape] = std::move(*measured);
    }
  return costs;
}

Result<double> measure_contention(const std::vector<Measurable>& models,
                                  const MeasureOptions& options) {
  if (simulated(engine_options(models.front(), {1, 1}, options)))
    return 1;
  double sum = 0;
  for (std::size_t m = 0; m < models.size(); ++m) {
    auto one = open_on_one(models[m], options);
    auto other = open_on_one(models[(m + 1) % models.size()], options);
    if (!one || !other)
      return tl::unexpected(!one ? one.error() : other.error());
    const auto factor = slowed(*one, *other);
    if (!factor)
      return factor;
    sum += *factor;
  }
  return sum / double(models.size());
}

} // namespace paceline::apps::plan
