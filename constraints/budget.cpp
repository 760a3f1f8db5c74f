#include "constraints/budget.hpp"

#include <ctime>
#include <utility>

namespace paceline::constraints {
namespace {

thread_local Budget* current = nullptr;

// GCC's sanitizers make the same work take several times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double slowness = 4;
#else
constexpr double slowness = 1;
#endif

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

} // namespace

Budget::Budget(double seconds)
    : outer_(std::exchange(current, this)), deadline_(thread_seconds() + slowness * seconds) {}

Budget::~Budget() {
  current = outer_;
}

/// A step takes a microsecond or less, except in a form with many parts; reading the clock takes
/// some hundred nanoseconds.
void Budget::spend_step() {
  if (++steps_ % 16 == 0 && thread_seconds() > deadline_)
    throw OverBudget();
}

void spend_step() {
  if (current)
    current->spend_step();
}

} // namespace paceline::constraints

namespace xgrammar {

void SpendStep(); // see tools/xgrammar

void SpendStep() {
  paceline::constraints::spend_step();
}

} // namespace xgrammar
