#include "tests/simulation/placed_run.hpp"

#include "placement/controller.hpp"
#include "placement/moves.hpp"
#include "placement/planner.hpp"
#include "tests/placement/dice.hpp"
#include "tests/placement/problems.hpp"
#include "tests/simulation/answer.hpp"
#include "tests/simulation/message_faults.hpp"
#include "tests/simulation/simulated_engine.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using placement::Group;
using placement::Move;
using placement::Placement;

constexpr std::size_t steps_max = 4'000'000;
constexpr base::Duration time_max = 4h;
constexpr int devices = 3;
constexpr double request_seconds = 0.3; ///< As plans have it.
constexpr std::size_t later_most = 6;   ///< Requests come so many times later than in one's run.
constexpr double change_seconds = 0.3;  ///< Between two changes of what is wanted; the mean.
constexpr double load_seconds = 0.2;
constexpr double close_seconds = 0.05;
constexpr double observed_seconds = 1;

constexpr const char* probes[] = {
    "load",         "failed load",    "unload",       "replan",          "in stages",
    "engine ended", "request waited", "request late", "request refused", "unload waited"};

class PlacedRun {
public:
  PlacedRun(std::uint64_t seed, const FaultPlan& plan, bool log);
  Report run();

private:
  using Place = std::pair<int, int>; ///< Group and model.
  struct Asked {
    int model;
    Job job;
    double deadline = 0;
    SimulatedAnswer answer{};
  };
  /// An engine, from when its actors are spawned.
  struct Host {
    Host(Ground& ground, Place where, Workload settings, std::uint64_t seed)
        : place(where), workload(std::move(settings)), engine(ground, workload, {.seed = seed}) {}
    const Place place;
    const Workload workload;
    SimulatedEngine engine;
    int open = 0;       ///< Requests.
    bool going = false; ///< It gets no new one.
  };

  void draw_requests(std::uint64_t seed);
  void arrive(Asked& asked);
  void route(Asked& asked);
  void send(Asked& asked, Place place, const placement::Controller::Ticket& ticket);
  void refuse(Asked& asked, ErrorCode code);
  bool coming(int model) const;
  void changed();
  void settle();
  void load(Place place);
  void loaded(Host& host, bool alive);
  void not_loaded(Place place);
  void withdraw(Host& host);
  void close(Host& host);
  void gone(Place place);
  void tell_controller();
  void change_plan();
  void replan();
  Placement planned(const Placement& all) const;
  void check_end();
  bool drive(const std::function<bool()>& reached);

  double now() const { return base::seconds(ground_.system.now() - base::TimePoint{}); }
  void after(double seconds, std::function<void()> then) {
    ground_.time->after(base::from_seconds(seconds), std::move(then));
  }
  void reached(const char* probe) { ++report_.probes[probe]; }
  void fail(std::string what) { report_.failures.push_back(std::move(what)); }
  void log(const std::string& line) {
    if (logs_)
      report_.log += fmt::format("{:>14.6f} {}\n", now(), line);
  }

  const bool logs_;
  Dice dice_;
  Report report_;
  placement::Problem problem_;
  Placement held_; ///< What takes memory: loading, serving or going.
  Placement wanted_;
  std::vector<std::size_t> planned_; ///< Groups that have models now, or may.
  placement::Controller controller_;
  std::optional<Move> moving_;
  int changes_left_;

  std::vector<Workload> workloads_; ///< By model.
  std::vector<std::unique_ptr<Asked>> asked_;
  std::vector<Asked*> waiting_; ///< For a place of their model.
  std::size_t ended_ = 0;

  Ground ground_;
  std::vector<std::unique_ptr<Host>> hosts_; ///< All that there were.
  std::map<Place, Host*> serving_;
  MessageFaults messages_;
};

PlacedRun::PlacedRun(std::uint64_t seed, const FaultPlan& plan, bool log)
    : logs_(log), dice_(seed), controller_({}, {}), changes_left_(3 + int(dice_.below(6))),
      ground_(seed, plan),
      messages_(ground_, nullptr, [this](const std::string& line) { this->log(line); }) {
  report_.seed = seed;
  ground_.faults->log = [this](const std::string& fault) { this->log("!! " + fault); };
  problem_ = alike(2 + int(dice_.below(2)), request_seconds, devices, 28);
  for (placement::Model& model : problem_.models)
    if (dice_.below(2) == 0)
      model.objective_seconds = 4 * request_seconds;
  draw_requests(seed);
}

/// Those of a run of each model's own, and over a longer time.
void PlacedRun::draw_requests(std::uint64_t seed) {
  for (std::size_t model = 0; model < problem_.models.size(); ++model) {
    workloads_.push_back(draw_workload(seed * problem_.models.size() + model));
    for (const Job& job : workloads_.back().jobs) {
      asked_.push_back(std::make_unique<Asked>(Asked{int(model), job}));
      const double at = base::seconds(job.arrival) * double(1 + dice_.below(later_most));
      after(at, [this, asked = asked_.back().get()] { arrive(*asked); });
    }
  }
}

Report PlacedRun::run() {
  change_plan();
  const base::TimePoint begin = ground_.system.now();
  if (!drive([&] { return ended_ == asked_.size() && changes_left_ == 0; }))
    fail("not every request ends");
  report_.time = ground_.system.now() - begin;
  ground_.faults->end();
  while (report_.steps < steps_max && ground_.system.step()) // to the end of the longest sleep
    ++report_.steps;
  if (report_.steps >= steps_max)
    fail("the engines never fall silent");
  check_end();
  messages_.end();
  for (const auto& host : hosts_)
    if (!host->going)
      host->engine.end();
  while (ground_.system.step()) // pieces under way
    ++report_.steps;
  if (const auto alive = ground_.system.system().registry().running(); alive != 0)
    fail(fmt::format("{} actors are alive after shutdown", alive));
  for (const auto& host : hosts_)
    host->engine.check_pools(report_.failures);
  for (const auto& asked : asked_)
    asked->answer.check(report_.failures);
  report_.faults = ground_.faults->counts();
  report_.faults_total = ground_.faults->count();
  report_.requests = int(asked_.size());
  return std::move(report_);
}

/// Models are where they are wanted, and nobody has a request.
void PlacedRun::check_end() {
  if (moving_ || held_ != wanted_)
    fail("models are not where they are wanted");
  if (!waiting_.empty())
    fail(fmt::format("{} requests wait for ever", waiting_.size()));
  for (int group = 0; group < int(held_.groups.size()); ++group) {
    if (const auto open = controller_.open(group); open > 0)
      fail(fmt::format("group {} has {} requests in the controller's books", group, open));
    for (const int model : held_.groups[std::size_t(group)].models)
      if (!serving_.contains({group, model}))
        fail(fmt::format("model {} has memory of group {} and does not serve", model, group));
  }
  for (const auto& [place, host] : serving_)
    host->engine.check_ledger(report_.failures);
}

void PlacedRun::arrive(Asked& asked) {
  asked.answer.job = &asked.job;
  asked.deadline = now() + problem_.models[std::size_t(asked.model)].objective_seconds;
  controller_.note(asked.model, now());
  route(asked);
}

/// As the server's fleet does.
void PlacedRun::route(Asked& asked) {
  using Outcome = placement::Dispatch::Outcome;
  const auto [dispatch, ticket] = controller_.begin(asked.model, now(), asked.deadline);
  if (dispatch.outcome == Outcome::accepted)
    return send(asked, {dispatch.group, asked.model}, ticket);
  if (dispatch.outcome == Outcome::late) {
    reached("request late");
    return refuse(asked, ErrorCode::deadline);
  }
  if (coming(asked.model)) {
    reached("request waited");
    return waiting_.push_back(&asked);
  }
  reached("request refused");
  refuse(asked, ErrorCode::not_found);
}

void PlacedRun::send(Asked& asked, Place place, const placement::Controller::Ticket& ticket) {
  const auto found = serving_.find(place);
  if (found == serving_.end())
    return fail(fmt::format("model {} is not on group {}", place.second, place.first));
  Host& host = *found->second;
  ++host.open;
  asked.answer.expected = expected_of(host.workload, asked.job, host.engine.tokenizer());
  const auto ended = [this, &asked, &host, ticket](const Finished& end) {
    log(fmt::format("request {} of model {} ends: {} {}", asked.job.spec.id, asked.model,
                    to_string(end.reason), end.error ? end.error->message : ""));
    if (!asked.answer.ends.empty())
      return; // which is found at last
    ++ended_;
    controller_.end(ticket, now());
    --host.open;
    if (end.error && end.error->code == ErrorCode::unavailable && !host.going) {
      reached("engine ended");
      withdraw(host);
    } else if (host.going && host.open == 0) {
      close(host);
    }
  };
  host.engine.submit(asked.job, make_sink(asked.answer, ended));
}

void PlacedRun::refuse(Asked& asked, ErrorCode code) {
  Finished end;
  end.reason = FinishReason::error;
  end.error = Error{code, "refused", ""};
  ++ended_;
  asked.answer.ends.push_back(std::move(end));
}

bool PlacedRun::coming(int model) const {
  return std::ranges::any_of(wanted_.groups,
                             [&](const Group& group) { return group.hosts(model); });
}

/// Who waits may have a place now, or none to wait for.
void PlacedRun::changed() {
  for (Asked* asked : std::exchange(waiting_, {}))
    route(*asked);
}

/// Moves models one at a time until they are where they are wanted.
void PlacedRun::settle() {
  if (moving_)
    return;
  moving_ = placement::next_move(problem_, held_, wanted_);
  if (!moving_)
    return;
  const Place place{moving_->group, moving_->model};
  if (moving_->kind == Move::Kind::load)
    return load(place);
  const auto found = serving_.find(place);
  if (found == serving_.end())
    return; // it goes already
  Host& host = *found->second;
  if (host.open > 0)
    reached("unload waited");
  withdraw(host);
}

void PlacedRun::load(Place place) {
  held_.groups[std::size_t(place.first)].add(place.second);
  after(dice_.exponential(load_seconds), [this, place] {
    if (ground_.faults->strikes(&FaultPlan::refused_memory))
      return not_loaded(place);
    Workload settings = workloads_[std::size_t(place.second)];
    settings.stages = held_.groups[std::size_t(place.first)].shape.pipeline;
    settings.reserve = settings.reserve && settings.stages == 1;
    hosts_.push_back(
        std::make_unique<Host>(ground_, place, std::move(settings), report_.seed + hosts_.size()));
    Host& host = *hosts_.back();
    host.engine.start([this, &host](bool alive) { loaded(host, alive); });
    messages_.add(host.engine);
  });
}

void PlacedRun::loaded(Host& host, bool alive) {
  if (!alive) {
    host.going = true;
    messages_.remove(host.engine);
    host.engine.end();
    return not_loaded(host.place);
  }
  reached("load");
  report_.probes["in stages"] += host.workload.stages > 1;
  log(fmt::format("model {} is on group {}", host.place.second, host.place.first));
  serving_[host.place] = &host;
  tell_controller();
  moving_.reset();
  changed();
  settle();
}

void PlacedRun::not_loaded(Place place) {
  reached("failed load");
  wanted_.groups[std::size_t(place.first)].remove(place.second);
  gone(place);
}

/// It gets no new request, and goes when the last one has ended.
void PlacedRun::withdraw(Host& host) {
  serving_.erase(host.place);
  tell_controller();
  host.going = true;
  if (host.open == 0)
    close(host);
}

void PlacedRun::close(Host& host) {
  messages_.remove(host.engine);
  host.engine.end();
  after(dice_.exponential(close_seconds), [this, place = host.place] {
    reached("unload");
    log(fmt::format("model {} is no longer on group {}", place.second, place.first));
    gone(place);
  });
}

void PlacedRun::gone(Place place) {
  held_.groups[std::size_t(place.first)].remove(place.second);
  if (moving_ && Place(moving_->group, moving_->model) == place)
    moving_.reset();
  changed();
  settle();
}

/// Who may get requests.
void PlacedRun::tell_controller() {
  Placement routed = held_;
  for (std::size_t g = 0; g < routed.groups.size(); ++g)
    std::erase_if(routed.groups[g].models, [&](int model) {
      return !serving_.contains({int(g), model});
    });
  controller_.change(problem_, routed);
}

/// An operator's file, or a plan for what came.
void PlacedRun::change_plan() {
  if (!wanted_.groups.empty() && dice_.below(2) == 0) {
    replan();
  } else {
    wanted_ = dice_.placement(problem_);
    if (held_.groups.empty()) {
      held_ = wanted_;
      for (Group& group : held_.groups)
        group.models.clear();
      tell_controller();
    }
    planned_ = wanted_.groups[devices].models.empty() ? std::vector<std::size_t>{0, 1, 2}
                                                      : std::vector<std::size_t>{devices, 2};
  }
  settle();
  changed();
  if (changes_left_ > 0 && changes_left_-- > 0)
    after(dice_.exponential(change_seconds), [this] { change_plan(); });
}

Placement PlacedRun::planned(const Placement& all) const {
  Placement some;
  for (const std::size_t group : planned_)
    some.groups.push_back(all.groups[group]);
  return some;
}

/// As the server's fleet does.
void PlacedRun::replan() {
  const placement::Workload observed = controller_.observed(now(), observed_seconds);
  if (observed.arrivals.empty())
    return;
  const Placement before = planned(wanted_);
  placement::PlanOptions how;
  how.trials = 20;
  for (const Group& group : before.groups)
    how.groups.push_back(group.shape);
  const auto score_of = [&](const Placement& placement) {
    return placement::score(placement::simulate(problem_, placement, observed));
  };
  Placement found =
      placement::with_all_models(problem_, placement::plan(problem_, observed, how).placement);
  if (!placement::worth_moving(score_of(before), score_of(found)))
    return;
  reached("replan");
  for (std::size_t g = 0; g < planned_.size(); ++g)
    found.groups[g].devices = before.groups[g].devices;
  found = placement::nearest(planned(held_), std::move(found));
  for (std::size_t g = 0; g < planned_.size(); ++g)
    wanted_.groups[planned_[g]].models = found.groups[g].models;
}

/// False: silence, or a bound, came first.
bool PlacedRun::drive(const std::function<bool()>& reached) {
  const base::TimePoint begin = ground_.system.now();
  for (; !reached(); ++report_.steps)
    if (report_.steps >= steps_max || ground_.system.now() - begin > time_max ||
        !ground_.system.step())
      return false;
  return true;
}

} // namespace

std::span<const char* const> placed_probe_names() {
  return probes;
}

Report simulate_placed(std::uint64_t seed, const FaultPlan& plan, bool log) {
  return PlacedRun(seed, plan, log).run();
}

} // namespace paceline::testing
