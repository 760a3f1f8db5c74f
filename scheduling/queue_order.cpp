#include "scheduling/queue_order.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <tuple>

namespace paceline::scheduling {
namespace {

base::TimePoint due(SchedulingPolicy policy, const SequenceSpec& spec, base::TimePoint now) {
  base::Duration allowed = limits::due_without_deadline;
  switch (policy) {
  case SchedulingPolicy::fcfs: return {};
  case SchedulingPolicy::priority: return now + spec.priority * limits::priority_step;
  case SchedulingPolicy::deadline:
    if (spec.deadline)
      allowed = std::min<base::Duration>(allowed, *spec.deadline);
  }
  return now + allowed;
}

} // namespace

void QueueOrder::arrive(Sequence& s, base::TimePoint now) {
  s.arrival = ++arrivals_;
  s.due = due(policy_, *s.spec, now);
  if (s.spec->deadline)
    s.deadline = now + *s.spec->deadline;
  const auto served = [](const auto& entry) { return entry.second.served; };
  const auto least = std::ranges::min_element(clients_, {}, served);
  const double begin = least == clients_.end() ? 0 : served(*least);
  ++clients_.try_emplace(s.spec->client, Client{0, begin}).first->second.sequences;
}

void QueueOrder::charge(const Sequence& s, int tokens) {
  clients_.at(s.spec->client).served += double(tokens) / s.spec->client_weight;
}

void QueueOrder::leave(const Sequence& s) {
  const auto at = clients_.find(s.spec->client);
  if (--at->second.sequences == 0)
    clients_.erase(at);
}

/// Puts sequences that have begun and lost their pages before those that have not: their callers
/// see a stream that stands still.
bool QueueOrder::goes_first(const Sequence& a, const Sequence& b) const {
  const auto key = [this](const Sequence& s) {
    const double served = clients_.at(s.spec->client).served;
    return std::tuple(!s.started, s.started ? 0.0 : served, s.arrival);
  };
  return policy_ == SchedulingPolicy::fcfs ? key(a) < key(b) : before(a, b);
}

Sequence* QueueOrder::next(Sequences& sequences) const {
  Sequence* next = nullptr;
  const auto consider = [&](Sequence& s) {
    if (s.phase == Sequence::Phase::waiting && (!next || goes_first(s, *next)))
      next = &s;
  };
  for (auto& [id, s] : sequences)
    consider(s);
  for (auto& [id, s] : sequences.queued())
    consider(s);
  return next;
}

} // namespace paceline::scheduling
