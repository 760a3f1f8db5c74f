// Whether requests get their turns: nobody who came later is served first without a better claim.
#pragma once

#include "actors/system/virtual_time.hpp"
#include "paceline/engine.hpp"
#include "speculation/sequence.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace paceline::testing {

/// So a request waits at most for those that came before it, and for those with a better claim,
/// which by priorities and deadlines can come for so long only (scheduling/queue_order.hpp).
class Turns {
public:
  explicit Turns(SchedulingPolicy policy) : policy_(policy) {}

  /// A message is about to be handled; what is wrong with it, if anything is.
  std::optional<std::string> sees(const actors::Arrival& arrival);

private:
  using Admitted = std::vector<speculation::SequenceSpecRef>;

  bool claims_more(const speculation::SequenceSpec& a, const speculation::SequenceSpec& b) const;
  std::optional<std::string> serves(speculation::SequenceId id);
  void forget(speculation::SequenceId id);
  Admitted::iterator find(speculation::SequenceId id);

  SchedulingPolicy policy_;
  std::set<caf::actor_id> heard_by_;         ///< Schedulers and caches.
  Admitted admitted_;                        ///< By arrival.
  std::set<speculation::SequenceId> served_; ///< Pages were asked for.
};

} // namespace paceline::testing
