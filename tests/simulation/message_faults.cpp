#include "tests/simulation/message_faults.hpp"

#include "tests/simulation/message_kinds.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

namespace paceline::testing {

using namespace std::chrono_literals;

MessageFaults::MessageFaults(Ground& ground, Witness* witness,
                             std::function<void(const std::string&)> log)
    : ground_(ground), witness_(witness), log_(std::move(log)) {
  ground_.system.decide_fates([this](const actors::Arrival& arrival) { return fate_of(arrival); });
}

void MessageFaults::remove(const SimulatedEngine& engine) {
  std::erase(engines_, &engine);
}

void MessageFaults::end() {
  ground_.system.decide_fates(nullptr);
  engines_.clear();
  actors_.clear();
}

bool MessageFaults::spared(const actors::Arrival& arrival) const {
  return std::ranges::any_of(engines_, [&](const SimulatedEngine* engine) {
    return arrival.receiver == engine->facade() || arrival.receiver == engine->supervisor();
  });
}

actors::Fate MessageFaults::fate_of(const actors::Arrival& arrival) {
  using Kind = actors::Fate::Kind;
  FaultSource& f = *ground_.faults;
  const int kind = kind_of(arrival.content);
  if (kind < 0)
    return {};
  log_(fmt::format("{:<10} {}", arrival.name, message_kinds()[std::size_t(kind)].name));
  if (witness_)
    witness_->sees(arrival);
  if (sees_)
    sees_(arrival);
  if (!supervisor_killed_ && !engines_.empty() && f.strikes(&FaultPlan::kill_supervisor))
    kill_supervisor();
  if (f.strikes(&FaultPlan::leap))
    ground_.time->after(0ns, [this] { ground_.system.leap(ground_.faults->delay(2s)); });
  if (!spared(arrival)) {
    actors_[arrival.name] = arrival.receiver;
    const bool chosen = kind == f.plan().victim;
    const bool kill = chosen && f.strikes(&FaultPlan::kill);
    const bool kill_after = chosen && !kill && f.strikes(&FaultPlan::kill_after);
    if (witness_ && (kill || kill_after))
      witness_->dies_of(arrival);
    if (kill || kill_after)
      return {kill ? Kind::kill : Kind::kill_after, {}};
  }
  if (!actors_.empty() && f.strikes(&FaultPlan::kill_anybody))
    kill_anybody();
  if (f.strikes(&FaultPlan::held_up))
    return {Kind::hold_up, f.delay(500ms)};
  if (!message_kinds()[std::size_t(kind)].in_any_order)
    return {};
  if (f.strikes(&FaultPlan::late))
    return {Kind::later, f.delay(500ms)};
  if (f.strikes(&FaultPlan::repeated))
    return {Kind::again, f.delay(500ms)};
  return {};
}

/// Some engine's, which ends with it.
void MessageFaults::kill_supervisor() {
  supervisor_killed_ = true;
  const auto victim = std::size_t(ground_.faults->count()) % engines_.size();
  caf::anon_send_exit(engines_[victim]->supervisor(), caf::exit_reason::kill);
}

/// An actor that was seen before, whatever it is doing; every other time the draft, which has few
/// messages of its own to die of.
void MessageFaults::kill_anybody() {
  const int count = ground_.faults->count();
  auto victim = actors_.find("draft");
  if (victim == actors_.end() || count % 2 == 0) {
    victim = actors_.begin();
    std::advance(victim, count * 7 % int(actors_.size()));
  }
  if (witness_)
    witness_->dies(victim->first);
  caf::anon_send_exit(victim->second, caf::exit_reason::kill);
}

} // namespace paceline::testing
