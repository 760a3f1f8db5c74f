// Finds requests that cannot make their own deadline: only the scheduler knows what steps take.
#pragma once

#include "scheduling/config.hpp"
#include "scheduling/drafting.hpp"
#include "scheduling/queue_order.hpp"
#include "scheduling/step_cost.hpp"

#include <optional>

namespace paceline::scheduling {

/// SchedulingPolicy::deadline has requests that would be late all the same refused at once, which
/// leaves the rows to those that can make it. Only what is certain is counted: the prompt, the
/// prompts of others that go first, and tokens that the answer must have (Request::min_tokens, and
/// all of max_tokens where no token ends it), at the times that steps have taken.
class Deadlines {
public:
  Deadlines(const SchedulerConfig& config, const Sequences& sequences, const StepCost& cost,
            const Drafting& drafting)
      : config_(config), sequences_(sequences), cost_(cost), drafting_(drafting) {}

  /// Notes that a sequence has pages: what the prefix cache had of its prompt need not be read.
  void began(const Sequence& s);
  /// Returns why the request is refused; none: it may make its deadline, or has begun.
  std::optional<Error> refusal(const Sequence& s, base::TimePoint now) const;

private:
  std::optional<double> seconds_needed(const Sequence& s) const;
  double rows_to_read(const Sequence& s) const;

  const SchedulerConfig& config_;
  const Sequences& sequences_;
  const StepCost& cost_;
  const Drafting& drafting_;
  speculation::FadingMean read_{1, 1}; ///< The share of prompts that had to be read.
};

} // namespace paceline::scheduling
