#include "placement/engines.hpp"

#include "placement/limits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::placement {
namespace {

/// Times are sums of many steps.
constexpr double sums_seconds = 1e-6;
constexpr double endless = std::numeric_limits<double>::infinity();

} // namespace

/// Returns how many requests are under way if those before `first` have ended.
std::size_t Engines::Engine::under_way(std::size_t first) const {
  return std::min(open.size() - first, pace.at_once());
}

void Engines::Engine::add(std::uint64_t number, double deadline) {
  const std::size_t most = pace.at_once();
  const double begin = open.size() < most ? progress : open[open.size() - most].until;
  open.push_back({number, begin + 1, deadline});
}

/// Makes what waits begin when the request ends that leaves it a place.
void Engines::Engine::line_up() {
  const std::size_t most = pace.at_once();
  for (std::size_t i = most; i < open.size(); ++i)
    open[i].until = open[i - most].until + 1;
}

void Engines::add(int model, const Pace& pace) {
  engines_.push_back({model, pace});
}

std::size_t Engines::index_of(int model) const {
  const auto found = std::ranges::find(engines_, model, &Engine::model);
  return std::size_t(found - engines_.begin());
}

std::vector<Engines::Position> Engines::positions() const {
  std::vector<Position> all;
  all.reserve(engines_.size());
  for (const Engine& engine : engines_)
    all.push_back({engine.progress, 0});
  return all;
}

/// Returns by how much all engines are slower than each would be by itself.
double Engines::slowdown(const std::vector<Position>& at) const {
  double load = 0;
  int busy = 0;
  for (std::size_t e = 0; e < engines_.size(); ++e)
    if (const std::size_t n = engines_[e].under_way(at[e].first); n > 0) {
      load += engines_[e].pace.load(n);
      ++busy;
    }
  return busy < 2 ? 1 : std::max(1.0, std::max(1.0, load) * std::pow(contention_, busy - 1));
}

void Engines::pass(std::vector<Position>& at, double seconds, double slowdown) const {
  for (std::size_t e = 0; e < engines_.size(); ++e)
    if (const std::size_t n = engines_[e].under_way(at[e].first); n > 0)
      at[e].progress += seconds / (engines_[e].pace.seconds(n) * slowdown);
}

/// Lets time pass until the next request ends, but no longer than `most`. Ends that change neither
/// a pace nor, beyond `protected_max`, anybody's prospects are passed over.
std::optional<Engines::Step> Engines::step(std::vector<Position>& at, double most) const {
  const double slower = slowdown(at);
  std::optional<Step> next;
  for (std::size_t e = 0; e < engines_.size(); ++e) {
    const auto& [model, pace, progress, open] = engines_[e];
    const auto [here, first] = at[e];
    const std::size_t n = engines_[e].under_way(first);
    if (n == 0)
      continue;
    const std::size_t request =
        first < limits::protected_max ? first : std::max(first, open.size() - n);
    const double seconds = std::max(0.0, open[request].until - here) * pace.seconds(n) * slower;
    if (!next || seconds < next->seconds)
      next = Step{e, request, seconds};
  }
  if (!next || next->seconds > most) {
    if (next)
      pass(at, most, slower);
    return std::nullopt;
  }
  pass(at, next->seconds, slower);
  at[next->engine] = {engines_[next->engine].open[next->request].until, next->request + 1};
  return next;
}

Engines::Outlook Engines::look_ahead(std::optional<std::size_t> newest) const {
  std::vector<Position> at = positions();
  Outlook outlook{now_, now_};
  while (const auto next = step(at, endless)) {
    outlook.idle += next->seconds;
    const auto& open = engines_[next->engine].open;
    if (next->engine == newest && next->request + 1 == open.size())
      outlook.finish = outlook.idle;
    else if (outlook.idle > open[next->request].deadline + sums_seconds)
      ++outlook.late;
  }
  return outlook;
}

Engines::Prospect Engines::foresee(int model) {
  const std::size_t index = index_of(model);
  Engine& engine = engines_[index];
  engine.add(0, endless);
  const Outlook with = look_ahead(index);
  engine.open.pop_back();
  return {with.finish, with.late > 0 && with.late > look_ahead({}).late};
}

void Engines::send(int model, std::uint64_t number, double deadline) {
  engines_[index_of(model)].add(number, deadline);
}

void Engines::run_until(double now, std::vector<End>& ended) {
  std::vector<Position> at = positions();
  while (const auto next = step(at, std::max(0.0, now - now_))) {
    now_ += next->seconds;
    auto& open = engines_[next->engine].open;
    ended.push_back({open.front().number, now_});
    open.pop_front();
    at[next->engine].first = 0;
  }
  for (std::size_t e = 0; e < engines_.size(); ++e)
    engines_[e].progress = engines_[e].open.empty() ? 0 : at[e].progress;
  now_ = std::isfinite(now) ? std::max(now_, now) : now_;
}

void Engines::hold_until(double now) {
  if (now <= now_)
    return;
  std::vector<Position> at = positions();
  pass(at, now - now_, slowdown(at));
  now_ = now;
  for (std::size_t e = 0; e < engines_.size(); ++e) {
    Engine& engine = engines_[e];
    engine.progress = at[e].progress;
    for (std::size_t i = 0; i < engine.under_way(0); ++i)
      engine.open[i].until = std::max(engine.open[i].until, engine.progress);
    engine.line_up();
  }
}

void Engines::end(std::uint64_t number) {
  for (Engine& engine : engines_) {
    const auto found = std::ranges::find(engine.open, number, &Request::number);
    if (found == engine.open.end())
      continue;
    const std::size_t most = engine.pace.at_once();
    const bool was_waiting = std::size_t(found - engine.open.begin()) >= most;
    engine.open.erase(found);
    if (!was_waiting && engine.open.size() >= most)
      engine.open[most - 1].until = engine.progress + 1; // It begins now.
    engine.line_up();
    if (engine.open.empty())
      engine.progress = 0;
    return;
  }
}

void Engines::go_on_from(const Engines& before) {
  now_ = before.now_;
  for (const Engine& from : before.engines_) {
    if (from.open.empty())
      continue;
    if (index_of(from.model) == engines_.size())
      add(from.model, from.pace);
    Engine& engine = engines_[index_of(from.model)];
    engine.progress = from.progress;
    engine.open = from.open;
    engine.line_up();
  }
}

} // namespace paceline::placement
