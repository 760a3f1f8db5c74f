#include "tests/simulation/turns.hpp"

#include "messages/interfaces.hpp"
#include "scheduling/limits.hpp"
#include "tests/simulation/message_kinds.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::testing {
namespace {

using speculation::SequenceId;
using speculation::SequenceSpec;

base::Duration allowed(const SequenceSpec& spec) {
  const base::Duration most = scheduling::limits::due_without_deadline;
  return std::min<base::Duration>(spec.deadline.value_or(most), most);
}

} // namespace

/// This says nothing of clients' fair shares.
bool Turns::claims_more(const SequenceSpec& a, const SequenceSpec& b) const {
  switch (policy_) {
  case SchedulingPolicy::fcfs: return a.client != b.client;
  case SchedulingPolicy::priority: return a.priority < b.priority;
  case SchedulingPolicy::deadline: return allowed(a) < allowed(b);
  }
  return true;
}

/// A message that finds its receiver held up is seen twice. Once one of the two receivers began
/// anew, what was asked for before may have been lost.
std::optional<std::string> Turns::sees(const actors::Arrival& arrival) {
  const auto* admit = as<scheduling::Admit>(arrival);
  const auto* wanted = as<scheduling::KvReserve>(arrival);
  if (const auto* gone = as<scheduling::Abandon>(arrival))
    forget(gone->sequence);
  if (!admit && !wanted)
    return std::nullopt;
  heard_by_.insert(arrival.receiver->id());
  if (heard_by_.size() > 2)
    return std::nullopt;
  if (wanted)
    return serves(wanted->sequence);
  if (find(admit->spec->id) == admitted_.end())
    admitted_.push_back(admit->spec);
  return std::nullopt;
}

std::optional<std::string> Turns::serves(SequenceId id) {
  const auto own = find(id);
  if (!served_.insert(id).second || own == admitted_.end())
    return std::nullopt;
  for (auto later = own + 1; later != admitted_.end(); ++later)
    if (served_.contains((*later)->id) && !claims_more(**later, **own))
      return fmt::format("request {}, which came later, was served before {}", (*later)->id, id);
  return std::nullopt;
}

/// It may come again, behind the others.
void Turns::forget(SequenceId id) {
  if (const auto at = find(id); at != admitted_.end())
    admitted_.erase(at);
  served_.erase(id);
}

Turns::Admitted::iterator Turns::find(SequenceId id) {
  return std::ranges::find(admitted_, id, [](const auto& spec) { return spec->id; });
}

} // namespace paceline::testing
