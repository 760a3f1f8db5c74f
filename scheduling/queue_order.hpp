// Decides whose turn it is: who gets pages, whose prompt is read, and who gives its pages up.
#pragma once

#include "base/clock.hpp"
#include "paceline/engine.hpp"
#include "scheduling/sequences.hpp"

#include <cstdint>
#include <map>

namespace paceline::scheduling {

/// The order depends on EngineOptions::scheduling.
///
/// `fcfs`: sequences go in the order of arrival, clients in turn. Among waiting sequences, the
/// client goes first that was served the fewest tokens for its weight: the virtual token counter of
/// Sheng et al. 2024 ("Fairness in Serving Large Language Models", section 4). A client that comes
/// back after a rest begins where the least served of those that wait is, so nobody saves up.
///
/// `priority`: each step of priority is worth so many seconds of waiting (limits::priority_step),
/// so nobody waits for ever.
///
/// `deadline`: the earliest deadline goes first; a sequence without one counts as if it ended so
/// long after its arrival (limits::due_without_deadline).
class QueueOrder {
public:
  explicit QueueOrder(SchedulingPolicy policy) : policy_(policy) {}

  /// Gives the sequence its place.
  void arrive(Sequence& s, base::TimePoint now);
  /// Counts tokens that a sequence was served: those of its prompt that were to be read, or of its
  /// output.
  void charge(const Sequence& s, int tokens);
  void leave(const Sequence& s);
  /// Returns, among sequences that wait for pages, the one to have them next; null: none waits.
  Sequence* next(Sequences& sequences) const;

  /// Orders sequences that run: whose prompt is read first, and who gives pages up last.
  static bool before(const Sequence& a, const Sequence& b) {
    return std::pair(a.due, a.arrival) < std::pair(b.due, b.arrival);
  }

private:
  bool goes_first(const Sequence& a, const Sequence& b) const;

  SchedulingPolicy policy_;
  std::uint64_t arrivals_ = 0;
  struct Client {
    int sequences = 0;
    double served = 0; ///< Tokens, divided by its weight.
  };
  std::map<std::uint64_t, Client> clients_; ///< Clients that have sequences here.
};

} // namespace paceline::scheduling
