// Whether requests are taken up that can no longer make their deadlines.
#pragma once

#include "actors/system/virtual_time.hpp"
#include "base/clock.hpp"
#include "speculation/sequence.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>

namespace paceline::testing {

/// Where every step takes the same time, and nothing was disturbed, the scheduler's cost model is
/// exact from its first step on. By deadlines it then takes up nobody who would be late even if
/// every window from now on were the longest and accepted as a whole.
class Admissions {
public:
  /// step: what each step of the target takes at least.
  explicit Admissions(base::Duration step) : step_(step) {}

  /// A message is about to be handled; what is wrong with it, if anything is.
  std::optional<std::string> sees(const actors::Arrival& arrival, base::TimePoint now);

private:
  struct Admitted {
    speculation::SequenceSpecRef spec;
    base::TimePoint at;
  };
  std::optional<std::string> takes_up(const Admitted& request, base::TimePoint now) const;

  base::Duration step_;
  bool measured_ = false;                                ///< The scheduler has heard of a step.
  std::map<speculation::SequenceId, Admitted> admitted_; ///< And not taken up yet.
  std::set<speculation::SequenceId> known_;
};

} // namespace paceline::testing
