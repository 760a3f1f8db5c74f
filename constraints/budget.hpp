// A bound on the time for which one form may keep a thread at work.
#pragma once

#include <stdexcept>

namespace paceline::constraints {

struct OverBudget : std::runtime_error {
  OverBudget() : std::runtime_error("it takes too long to work out what may come next") {}
};

/// Bounds xgrammar's work on this thread while the object lives: the work ends with OverBudget once
/// the thread has computed for so long, however busy the machine is. What it was working on must
/// not be used again.
class Budget {
public:
  explicit Budget(double seconds);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void spend_step();

private:
  Budget* outer_;
  double deadline_; ///< Time on the thread's CPU clock.
  unsigned steps_ = 0;
};

/// Counts a step against the budget on this thread, if there is one.
void spend_step();

} // namespace paceline::constraints
