#include "tests/simulation/placed_run.hpp"

#include "tests/placement/problems.hpp"
#include "tests/simulation/simulated_fleet.hpp"

#include <fmt/format.h>
#include <memory>
#include <utility>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t steps_max = 4'000'000;
constexpr base::Duration time_max = 4h;
constexpr int devices = 3;
constexpr int device_bytes = 28;        ///< Of which a model takes a half.
constexpr double request_seconds = 0.3; ///< As plans have it.
constexpr std::size_t spread = 6;       ///< Requests come over so many times a single run's time.
constexpr double change_seconds = 0.3;  ///< Between two changes of the placement; the mean.

constexpr const char* probes[] = {"request waited", "request late", "request refused"};

class PlacedRun {
public:
  PlacedRun(std::uint64_t seed, const FaultPlan& plan, bool log)
      : logs_(log), dice_(~seed), problem_(draw_problem()), ground_(seed, plan),
        fleet_(ground_, seed, problem_, draw_settings(seed), hooks()) {
    report_.seed = seed;
    ground_.faults->log = [this](const std::string& fault) { this->log("!! " + fault); };
  }

  Report run();

private:
  struct Asked {
    int model;
    Job job;
    double deadline = 0;
    SimulatedAnswer answer{};
  };

  placement::Problem draw_problem();
  std::vector<Workload> draw_settings(std::uint64_t seed);
  SimulatedFleet::Hooks hooks();
  void schedule_requests();
  void ask(Asked& asked);
  void refuse(Asked& asked);
  void change_placement();
  bool drive();

  void log(const std::string& line) {
    if (logs_)
      report_.log += fmt::format("{:>14.6f} {}\n", fleet_.now(), line);
  }

  const bool logs_;
  Dice dice_;
  Report report_;
  placement::Problem problem_;
  std::vector<std::unique_ptr<Asked>> asked_;
  std::vector<Asked*> waiting_; ///< For a place of their model.
  std::size_t ended_ = 0;
  int changes_left_ = 0;
  Ground ground_;
  SimulatedFleet fleet_;
};

placement::Problem PlacedRun::draw_problem() {
  placement::Problem problem =
      alike(2 + int(dice_.below(2)), request_seconds, devices, device_bytes);
  for (placement::Model& model : problem.models)
    if (dice_.below(2) == 0)
      model.objective_seconds = 4 * request_seconds;
  return problem;
}

/// Each model's, and its requests: those of a run of its own.
std::vector<Workload> PlacedRun::draw_settings(std::uint64_t seed) {
  std::vector<Workload> settings;
  for (std::size_t model = 0; model < problem_.models.size(); ++model) {
    settings.push_back(draw_workload(seed * problem_.models.size() + model));
    for (const Job& job : settings.back().jobs)
      asked_.push_back(std::make_unique<Asked>(Asked{int(model), job}));
  }
  return settings;
}

SimulatedFleet::Hooks PlacedRun::hooks() {
  return {.changed =
              [this] {
                for (Asked* asked : std::exchange(waiting_, {}))
                  ask(*asked);
              },
          .reached = [this](const char* probe) { ++report_.probes[probe]; },
          .failed = [this](std::string what) { report_.failures.push_back(std::move(what)); },
          .log = [this](const std::string& line) { log(line); }};
}

void PlacedRun::schedule_requests() {
  for (const auto& asked : asked_) {
    const base::Duration at = asked->job.arrival * int(1 + dice_.below(spread));
    ground_.time->after(at, [this, asked = asked.get()] {
      const placement::Model& model = problem_.models[std::size_t(asked->model)];
      asked->answer.job = &asked->job;
      asked->deadline = fleet_.now() + model.objective_seconds;
      fleet_.note(asked->model);
      ask(*asked);
    });
  }
}

void PlacedRun::ask(Asked& asked) {
  using Routed = SimulatedFleet::Routed;
  switch (fleet_.route(asked.model, asked.answer, asked.deadline, [this] { ++ended_; })) {
  case Routed::sent: return;
  case Routed::waits: ++report_.probes["request waited"]; return waiting_.push_back(&asked);
  case Routed::late: ++report_.probes["request late"]; break;
  case Routed::refused: ++report_.probes["request refused"]; break;
  }
  refuse(asked);
}

void PlacedRun::refuse(Asked& asked) {
  Finished end;
  end.reason = FinishReason::error;
  end.error = Error{ErrorCode::overloaded, "refused", ""};
  asked.answer.ends.push_back(std::move(end));
  ++ended_;
}

/// Lets an operator change it, or a plan.
void PlacedRun::change_placement() {
  if (dice_.below(2) == 0)
    fleet_.draw_placement();
  else
    fleet_.replan();
  if (--changes_left_ > 0)
    ground_.time->after(base::from_seconds(dice_.exponential(change_seconds)),
                        [this] { change_placement(); });
}

/// False: silence, or a bound, came before all requests had ended.
bool PlacedRun::drive() {
  const base::TimePoint begin = ground_.system.now();
  for (; ended_ < asked_.size() || changes_left_ > 0; ++report_.steps)
    if (report_.steps >= steps_max || ground_.system.now() - begin > time_max ||
        !ground_.system.step())
      return false;
  return true;
}

Report PlacedRun::run() {
  const auto fail = hooks().failed;
  fleet_.draw_placement();
  schedule_requests();
  changes_left_ = 3 + int(dice_.below(6));
  change_placement();
  if (!drive())
    fail("not every request ends");
  ground_.faults->end();
  while (report_.steps < steps_max && ground_.system.step()) // to the end of the longest sleep
    ++report_.steps;
  if (report_.steps >= steps_max)
    fail("the engines never fall silent");
  fleet_.check();
  fleet_.end();
  while (ground_.system.step()) // pieces under way
    ++report_.steps;
  if (const auto alive = ground_.system.system().registry().running(); alive != 0)
    fail(fmt::format("{} actors are alive after shutdown", alive));
  fleet_.check_pools(report_.failures);
  for (const auto& asked : asked_)
    asked->answer.check(report_.failures);
  report_.faults = ground_.faults->counts();
  report_.faults_total = ground_.faults->count();
  report_.requests = int(asked_.size());
  return std::move(report_);
}

} // namespace

std::vector<const char*> placed_probe_names() {
  std::vector<const char*> names(std::begin(probes), std::end(probes));
  const auto fleets = fleet_probe_names();
  names.insert(names.end(), fleets.begin(), fleets.end());
  return names;
}

Report simulate_placed(std::uint64_t seed, const FaultPlan& plan, bool log) {
  return PlacedRun(seed, plan, log).run();
}

} // namespace paceline::testing
