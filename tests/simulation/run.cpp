#include "tests/simulation/run.hpp"

#include "tests/simulation/answer.hpp"
#include "tests/simulation/message_faults.hpp"
#include "tests/simulation/simulated_engine.hpp"
#include "tests/simulation/witness.hpp"

#include <fmt/format.h>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

/// Messages and timers of a run, and its virtual time: far more than any needs.
constexpr std::size_t steps_max = 2'000'000;
constexpr base::Duration time_max = 4h;
/// Where no fault takes time itself, no more is lost than restarts and rebuilds take.
constexpr base::Duration time_max_without_delays = 60s;

class SimulatedRun {
public:
  SimulatedRun(std::uint64_t seed, const FaultPlan& plan, const RunOptions& options)
      : options_(options), workload_(draw_workload(seed)), ground_(seed, plan),
        engine_(ground_, workload_,
                {seed, options.drafter, [this](LaneNews news) { witness_.sees(news); }}),
        witness_(report_, engine_.telemetry(), workload_.scheduling) {
    report_.seed = seed;
    ground_.faults->log = [this](const std::string& fault) { log("!! " + fault); };
    if (int(workload_.jobs.size()) > options.jobs_max)
      workload_.jobs.resize(std::size_t(options.jobs_max));
  }

  Report run() {
    start();
    MessageFaults messages(ground_, &witness_, [this](const std::string& line) { log(line); });
    messages.add(engine_);
    if (workload_.steady && workload_.stages == 1 &&
        workload_.scheduling == SchedulingPolicy::deadline)
      witness_.watch_admissions(workload_.target_step, ground_);
    const base::TimePoint begin = ground_.system.now();
    const bool answered = drive([&] { return ended_ == workload_.jobs.size(); });
    report_.time = ground_.system.now() - begin;
    FaultSource& faults = *ground_.faults;
    if (!answered)
      fail("not every request ends");
    else if (!faults.plan().delays() && report_.time > time_max_without_delays)
      fail(
          fmt::format("{:.1f} s went by, though nothing stood still", base::seconds(report_.time)));
    faults.end();
    settle();
    messages.end();
    close();
    for (const SimulatedAnswer& answer : answers_) {
      answer.check(report_.failures);
      report_.tokens += int(answer.tokens.size());
    }
    report_.faults = faults.counts();
    report_.faults_total = faults.count();
    report_.requests = int(workload_.jobs.size());
    return std::move(report_);
  }

private:
  void start();
  void submit(SimulatedAnswer& answer);
  bool drive(const std::function<bool()>& reached);
  void settle();
  void close();
  void fail(std::string what) { report_.failures.push_back(std::move(what)); }
  void log(const std::string& line) {
    if (options_.log)
      report_.log += fmt::format("{:>14.6f} {}\n",
                                 base::seconds(ground_.system.now() - base::TimePoint{}), line);
  }

  const RunOptions options_;
  Workload workload_;
  Report report_;
  std::vector<SimulatedAnswer> answers_;
  std::size_t ended_ = 0;
  Ground ground_;
  SimulatedEngine engine_;
  Witness witness_;
};

void SimulatedRun::start() {
  bool started = false;
  engine_.start([&](bool) { started = true; });
  ground_.system.run_until([&] { return started; });
  answers_.resize(workload_.jobs.size());
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    SimulatedAnswer& answer = answers_[i];
    answer.job = &workload_.jobs[i];
    answer.expected = expected_of(workload_, *answer.job, engine_.tokenizer());
    ground_.time->after(answer.job->arrival, [this, &answer] { submit(answer); });
  }
}

void SimulatedRun::submit(SimulatedAnswer& answer) {
  engine_.submit(*answer.job, make_sink(answer, [this, &answer](const Finished& end) {
    log(fmt::format("request {} ends: {} {}", answer.job->spec.id, to_string(end.reason),
                    end.error ? end.error->message : ""));
    ++report_.ends[end.error ? to_string(end.error->code) : to_string(end.reason)];
    witness_.ends(answer.job->spec.id, end, int(answer.tokens.size()));
    ++ended_;
  }));
}

/// False: silence, or a bound, came first.
bool SimulatedRun::drive(const std::function<bool()>& reached) {
  const base::TimePoint begin = ground_.system.now();
  for (; !reached(); ++report_.steps)
    if (report_.steps >= steps_max || ground_.system.now() - begin > time_max ||
        !ground_.system.step())
      return false;
  return true;
}

/// Nothing is left to do: no message, no page.
void SimulatedRun::settle() {
  while (report_.steps < steps_max && ground_.system.step()) // to the end of the longest sleep
    ++report_.steps;
  if (report_.steps >= steps_max)
    return fail("the engine never falls silent");
  engine_.check_ledger(report_.failures);
  witness_.settles();
}

void SimulatedRun::close() {
  engine_.end();
  while (ground_.system.step()) // pieces under way
    ++report_.steps;
  if (const auto alive = ground_.system.system().registry().running(); alive != 0)
    fail(fmt::format("{} actors are alive after shutdown", alive));
  engine_.check_pools(report_.failures);
}

} // namespace

Report simulate(std::uint64_t seed, const FaultPlan& plan, const RunOptions& options) {
  return SimulatedRun(seed, plan, options).run();
}

Shrunk shrink(std::uint64_t seed, const FaultPlan& plan) {
  Shrunk best{plan, {}, simulate(seed, plan)};
  const auto try_it = [&](const FaultPlan& smaller, const RunOptions& options) {
    Report report = simulate(seed, smaller, options);
    if (!report.failed())
      return false;
    best = {smaller, options, std::move(report)};
    return true;
  };
  for (const FaultField& field : fault_fields()) {
    FaultPlan without = best.plan;
    without.*field.probability = 0;
    if (best.plan.*field.probability > 0)
      try_it(without, best.options);
  }
  for (bool smaller = true; smaller && best.plan.faults_max > 0;) {
    FaultPlan fewer = best.plan;
    --fewer.faults_max;
    smaller = try_it(fewer, best.options);
  }
  for (bool smaller = true; smaller && best.report.requests > 1;)
    smaller = try_it(best.plan, {.log = false, .jobs_max = best.report.requests - 1});
  best.options.log = true;
  best.report = simulate(seed, best.plan, best.options);
  return best;
}

} // namespace paceline::testing
