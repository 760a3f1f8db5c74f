#include "tests/simulation/run.hpp"

#include "scheduling/limits.hpp"
#include "tests/simulation/answer.hpp"
#include "tests/simulation/machines.hpp"
#include "tests/simulation/message_faults.hpp"
#include "tests/simulation/simulated_engine.hpp"
#include "tests/simulation/witness.hpp"

#include <algorithm>
#include <deque>
#include <fmt/format.h>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

/// Messages and timers of a run, and its virtual time: far more than any needs.
constexpr std::size_t steps_max = 2'000'000;
constexpr base::Duration time_max = 4h;
/// Where no fault takes time itself, no more is lost than restarts and recomputations take.
constexpr base::Duration time_max_without_delays = 60s;
/// What requests may wait for a stage on another machine, besides, for each fault.
constexpr base::Duration outage_max = 15s;
/// The time in which every node is back, and has been asked again.
constexpr base::Duration rest_with_nodes = 30s;

/// Returns the time in which a lane is found that stands still with a batch nobody waits for.
base::Duration time_to_miss_lane(const FaultOptions& faults) {
  return faults.stall_patience + faults.stage_patience + 2 * scheduling::limits::draft_timeout_max;
}

class SimulatedRun {
public:
  SimulatedRun(std::uint64_t seed, const FaultPlan& plan, const RunOptions& options)
      : options_(options), workload_(draw_workload(seed, options.elsewhere)), ground_(seed, plan),
        machines_(ground_, workload_, seed, report_,
                  [this](base::TimePoint then) { return open_since(then); }),
        engine_(ground_, workload_, options_of(seed)),
        witness_(report_, engine_.telemetry(), workload_.scheduling) {
    report_.seed = seed;
    ground_.faults->log = [this](const std::string& fault) { log("!! " + fault); };
    if (int(workload_.jobs.size()) > options.jobs_max)
      workload_.jobs.resize(std::size_t(options.jobs_max));
  }

  Report run() {
    if (machines_.any())
      log(machines_.text());
    start();
    MessageFaults messages(ground_, &witness_, [this](const std::string& line) { log(line); });
    messages.add(engine_);
    if (machines_.any())
      messages.watch([this](const actors::Arrival& arrival) { machines_.sees(arrival); });
    if (workload_.steady && workload_.stages == 1 &&
        workload_.scheduling == SchedulingPolicy::deadline)
      witness_.watch_admissions(workload_.target_step, ground_);
    if (machines_.has_draft())
      witness_.watch_drafts(workload_);
    const bool answered = drive([&] { return ended_ == workload_.jobs.size(); });
    report_.time = ground_.system.now() - begin_;
    check_course(answered);
    ground_.faults->end();
    settle();
    if (machines_.any())
      serve_again();
    messages.end();
    close();
    for (const SimulatedAnswer& answer : answers_) {
      answer.check(report_.failures);
      report_.tokens += int(answer.tokens.size());
    }
    report_.faults = ground_.faults->counts();
    report_.faults_total = ground_.faults->count();
    report_.requests = int(workload_.jobs.size());
    return std::move(report_);
  }

private:
  SimulatedEngine::Options options_of(std::uint64_t seed) {
    SimulatedEngine::Options options{
        seed, options_.drafter, [this](LaneNews news) { witness_.sees(news); }, {}, {}};
    machines_.connect(options);
    return options;
  }
  void start();
  void serve_again();
  void ask_again(speculation::SequenceId id);
  void check_course(bool answered);
  int open_since(base::TimePoint then) const;
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
  std::deque<Job> jobs_behind_; ///< All faults; they may end with the engine only.
  std::deque<SimulatedAnswer> answers_behind_;
  std::size_t ended_ = 0;
  Ground ground_;
  base::TimePoint begin_;
  Machines machines_;
  SimulatedEngine engine_;
  Witness witness_;
};

void SimulatedRun::start() {
  bool started = false;
  engine_.start([&](bool) { started = true; });
  ground_.system.run_until([&] { return started; });
  begin_ = ground_.system.now();
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
    machines_.sees(answer.job->spec.id, end);
    ++ended_;
  }));
}

int SimulatedRun::open_since(base::TimePoint then) const {
  return int(std::ranges::count_if(answers_, [&](const SimulatedAnswer& answer) {
    return answer.ends.empty() && begin_ + answer.job->arrival < then;
  }));
}

void SimulatedRun::check_course(bool answered) {
  const FaultSource& faults = *ground_.faults;
  if (faults.count() == 0 && machines_.any() && report_.probes["connections"] > machines_.links())
    fail("a connection was lost, though nothing went wrong");
  for (const auto& [how, count] : report_.ends)
    if (faults.count() == 0 && how == to_string(ErrorCode::unavailable))
      fail(fmt::format("{} requests failed, though nothing went wrong", count));
  const base::Telemetry& telemetry = *engine_.telemetry();
  const bool all_live = faults.count() == 0 || faults.plan().spares_all();
  if (all_live && telemetry.restarts > 0 && !telemetry.draft_disabled)
    fail(fmt::format("actors ended {} times, though nothing stood still",
                     telemetry.restarts.load()));
  base::Duration most = time_max_without_delays;
  if (machines_.has_stages())
    most += faults.count() * outage_max;
  if (!answered)
    fail("not every request ends");
  else if (!faults.plan().delays() && report_.time > most)
    fail(fmt::format("{:.1f} s went by, though nothing stood still", base::seconds(report_.time)));
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

/// Nothing is left to do: no message, no page. Who has a node asks it for ever whether it is there.
void SimulatedRun::settle() {
  if (machines_.any())
    ground_.rest(rest_with_nodes + time_to_miss_lane(workload_.faults));
  while (!machines_.any() && report_.steps < steps_max &&
         ground_.system.step()) // to the end of the longest sleep
    ++report_.steps;
  if (report_.steps >= steps_max)
    return fail("the engine never falls silent");
  engine_.check_ledger(report_.failures);
  witness_.settles();
  machines_.check_settled(engine_.lives());
}

/// Machines that are back are used: nothing goes wrong any more.
void SimulatedRun::serve_again() {
  // A lane that stands still is missed by as many requests as owe it that long together.
  const base::Duration missed = 3 * base::Duration(workload_.faults.stall_patience);
  const auto last = std::uint64_t(2 + missed / (40 * workload_.target_step));
  for (std::uint64_t i = 0; engine_.lives(); ++i) {
    const std::uint64_t before = engine_.telemetry()->drafted;
    ask_again(1'000'000 + i);
    if (answers_behind_.back().ends.empty())
      return;
    const std::uint64_t drafted = engine_.telemetry()->drafted - before;
    if (!machines_.has_draft() || drafted >= 20)
      return;
    if (i == last || ground_.faults->counts().empty())
      return fail(fmt::format("behind all faults the node drafted {} tokens for 40", drafted));
    ++report_.probes["request without drafts behind all faults"];
  }
}

void SimulatedRun::ask_again(speculation::SequenceId id) {
  Job& job = jobs_behind_.emplace_back();
  job.spec.id = id;
  job.prompt = {1, 2, 3};
  job.spec.prompt_tokens = 3;
  job.spec.max_tokens = 40;
  job.spec.rule = sampling::Rule::coupled;
  job.spec.speculation = SpeculationMode::sync;
  job.spec.window = 3;
  SimulatedAnswer& answer = answers_behind_.emplace_back();
  answer.job = &job;
  answer.expected = expected_of(workload_, job, engine_.tokenizer());
  engine_.submit(job, make_sink(answer, [](const Finished&) {}));
  if (!drive([&] { return !answer.ends.empty(); }))
    return fail("the request behind all faults does not end");
  answer.check(report_.failures);
  if (answer.tokens.size() != answer.expected.tokens.size())
    fail("the request behind all faults is not answered");
}

void SimulatedRun::close() {
  engine_.end();
  machines_.end();
  while (ground_.system.step()) // pieces under way
    ++report_.steps;
  if (const auto alive = ground_.system.system().registry().running(); alive != 0)
    fail(fmt::format("{} actors are alive after shutdown", alive));
  engine_.check_pools(report_.failures);
  machines_.check_gone();
}

} // namespace

Report simulate(std::uint64_t seed, const FaultPlan& plan, const RunOptions& options) {
  return SimulatedRun(seed, plan, options).run();
}

Shrunk shrink(std::uint64_t seed, const FaultPlan& plan, const RunOptions& begin) {
  Shrunk best{plan, begin, simulate(seed, plan, begin)};
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
  for (bool smaller = true; smaller && best.report.requests > 1;) {
    RunOptions fewer = best.options;
    fewer.jobs_max = best.report.requests - 1;
    smaller = try_it(best.plan, fewer);
  }
  best.options.log = true;
  best.report = simulate(seed, best.plan, best.options);
  return best;
}

} // namespace paceline::testing
