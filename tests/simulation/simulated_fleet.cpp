#include "tests/simulation/simulated_fleet.hpp"

#include "placement/planner.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::testing {
namespace {

using placement::Group;
using placement::Move;
using placement::Placement;

constexpr std::size_t devices = 3;
constexpr double load_seconds = 0.2;
constexpr double close_seconds = 0.05;
constexpr double observed_seconds = 1;
constexpr int trials = 20; ///< Of a plan.

constexpr const char* probes[] = {"load",      "failed load",  "unload",       "replan",
                                  "in stages", "engine ended", "unload waited"};

} // namespace

std::span<const char* const> fleet_probe_names() {
  return probes;
}

SimulatedFleet::SimulatedFleet(Ground& ground, std::uint64_t seed, placement::Problem problem,
                               std::vector<Workload> settings, Hooks hooks)
    : ground_(ground), seed_(seed), dice_(seed), problem_(std::move(problem)),
      settings_(std::move(settings)), hooks_(std::move(hooks)), controller_({}, {}),
      messages_(ground, nullptr, hooks_.log) {}

void SimulatedFleet::later(double seconds, std::function<void()> then) {
  ground_.time->after(base::from_seconds(dice_.exponential(seconds)), std::move(then));
}

SimulatedFleet::Routed SimulatedFleet::route(int model, SimulatedAnswer& answer, double deadline,
                                             std::function<void()> ended) {
  using Outcome = placement::Dispatch::Outcome;
  const auto [dispatch, ticket] = controller_.begin(model, now(), deadline);
  if (dispatch.outcome == Outcome::late)
    return Routed::late;
  if (dispatch.outcome == Outcome::not_placed)
    return wanted_.hosts(model) ? Routed::waits : Routed::refused;
  const auto found = serving_.find({dispatch.group, model});
  if (found == serving_.end())
    hooks_.failed(
        fmt::format("a request is sent to group {}, where model {} is not", dispatch.group, model));
  else
    send(*found->second, answer, ticket, std::move(ended));
  return Routed::sent;
}

void SimulatedFleet::send(Host& host, SimulatedAnswer& answer,
                          const placement::Controller::Ticket& ticket,
                          std::function<void()> ended) {
  ++host.open;
  answer.expected = expected_of(host.workload, *answer.job, host.engine.tokenizer());
  const auto ends = [this, &host, &answer, ticket, ended = std::move(ended)](const Finished& end) {
    hooks_.log(fmt::format("request {} of model {} ends: {} {}", answer.job->spec.id,
                           host.place.second, to_string(end.reason),
                           end.error ? end.error->message : ""));
    if (!answer.ends.empty())
      return; // which is found at last
    controller_.end(ticket, now());
    --host.open;
    if (end.error && end.error->code == ErrorCode::unavailable && !host.going) {
      hooks_.reached("engine ended");
      withdraw(host);
    } else if (host.going && host.open == 0) {
      close(host);
    }
    ended();
  };
  host.engine.submit(*answer.job, make_sink(answer, ends));
}

void SimulatedFleet::settle() {
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
  if (found->second->open > 0)
    hooks_.reached("unload waited");
  withdraw(*found->second);
}

void SimulatedFleet::load(Place place) {
  held_.groups[std::size_t(place.first)].add(place.second);
  later(load_seconds, [this, place] {
    if (ground_.faults->strikes(&FaultPlan::refused_memory))
      return not_loaded(place);
    Workload settings = settings_[std::size_t(place.second)];
    settings.stages = held_.groups[std::size_t(place.first)].shape.pipeline;
    settings.reserve = settings.reserve && settings.stages == 1;
    settings.target.recurrent = settings.target.recurrent && settings.stages == 1;
    hosts_.push_back(
        std::make_unique<Host>(ground_, place, std::move(settings), seed_ + hosts_.size()));
    Host& host = *hosts_.back();
    host.engine.start([this, &host](bool alive) { loaded(host, alive); });
    messages_.add(host.engine);
  });
}

void SimulatedFleet::loaded(Host& host, bool alive) {
  if (!alive) {
    host.going = true;
    messages_.remove(host.engine);
    host.engine.end();
    return not_loaded(host.place);
  }
  hooks_.reached("load");
  if (host.workload.stages > 1)
    hooks_.reached("in stages");
  hooks_.log(fmt::format("model {} is on group {}", host.place.second, host.place.first));
  serving_[host.place] = &host;
  tell_controller();
  moving_.reset();
  hooks_.changed();
  settle();
}

void SimulatedFleet::not_loaded(Place place) {
  hooks_.reached("failed load");
  wanted_.groups[std::size_t(place.first)].remove(place.second);
  gone(place);
}

/// It gets no new request, and goes when the last one has ended.
void SimulatedFleet::withdraw(Host& host) {
  serving_.erase(host.place);
  tell_controller();
  host.going = true;
  if (host.open == 0)
    close(host);
}

void SimulatedFleet::close(Host& host) {
  messages_.remove(host.engine);
  host.engine.end();
  later(close_seconds, [this, place = host.place] {
    hooks_.reached("unload");
    hooks_.log(fmt::format("model {} is no longer on group {}", place.second, place.first));
    gone(place);
  });
}

void SimulatedFleet::gone(Place place) {
  held_.groups[std::size_t(place.first)].remove(place.second);
  if (moving_ && Place(moving_->group, moving_->model) == place)
    moving_.reset();
  hooks_.changed();
  settle();
}

/// Who may get requests.
void SimulatedFleet::tell_controller() {
  Placement routed = held_;
  for (std::size_t g = 0; g < routed.groups.size(); ++g)
    std::erase_if(routed.groups[g].models, [&](int model) {
      return !serving_.contains({int(g), model});
    });
  controller_.change(problem_, routed);
}

void SimulatedFleet::draw_placement() {
  wanted_ = dice_.placement(problem_);
  if (held_.groups.empty()) {
    held_ = wanted_;
    for (Group& group : held_.groups)
      group.models.clear();
    tell_controller();
  }
  // The last group has the devices of the first two.
  const bool joined = !wanted_.groups[devices].models.empty();
  planned_ = joined ? std::vector<std::size_t>{devices, 2} : std::vector<std::size_t>{0, 1, 2};
  settle();
  hooks_.changed();
}

Placement SimulatedFleet::planned(const Placement& all) const {
  Placement some;
  for (const std::size_t group : planned_)
    some.groups.push_back(all.groups[group]);
  return some;
}

void SimulatedFleet::replan() {
  const placement::Workload observed = controller_.observed(now(), observed_seconds);
  if (observed.arrivals.empty())
    return;
  const Placement before = planned(wanted_);
  placement::PlanOptions how;
  how.trials = trials;
  for (const Group& group : before.groups)
    how.groups.push_back(group.shape);
  const auto score_of = [&](const Placement& placement) {
    return placement::score(placement::simulate(problem_, placement, observed));
  };
  Placement found =
      placement::with_all_models(problem_, placement::plan(problem_, observed, how).placement);
  if (!placement::worth_moving(score_of(before), score_of(found)))
    return;
  hooks_.reached("replan");
  found = placement::nearest(planned(held_), std::move(found));
  for (std::size_t g = 0; g < planned_.size(); ++g)
    wanted_.groups[planned_[g]].models = found.groups[g].models;
  settle();
  hooks_.changed();
}

void SimulatedFleet::check() {
  if (moving_ || held_ != wanted_)
    hooks_.failed("models are not where they are wanted");
  for (int group = 0; group < int(held_.groups.size()); ++group) {
    if (const auto open = controller_.open(group); open > 0)
      hooks_.failed(fmt::format("the controller has {} requests of group {}", open, group));
    for (const int model : held_.groups[std::size_t(group)].models)
      if (!serving_.contains({group, model}))
        hooks_.failed(fmt::format("model {} has memory of group {} for nothing", model, group));
  }
  std::vector<std::string> failures;
  for (const auto& [place, host] : serving_)
    host->engine.check_ledger(failures);
  for (std::string& failure : failures)
    hooks_.failed(std::move(failure));
}

void SimulatedFleet::end() {
  messages_.end();
  for (const auto& host : hosts_)
    if (!std::exchange(host->going, true))
      host->engine.end();
}

void SimulatedFleet::check_pools(std::vector<std::string>& failures) const {
  for (const auto& host : hosts_)
    host->engine.check_pools(failures);
}

} // namespace paceline::testing
