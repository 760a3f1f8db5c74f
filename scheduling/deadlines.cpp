#include "scheduling/deadlines.hpp"

#include "sampling/theory.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::scheduling {
namespace {

constexpr double prompts_remembered = 32;

/// Returns the fewest tokens that the sequence must still have.
int least_output(const Sequence& s) {
  const int all = s.spec->end_of_text.empty() ? s.spec->max_tokens : s.spec->warping.min_tokens;
  return std::max(1, all - s.output());
}

} // namespace

void Deadlines::began(const Sequence& s) {
  read_.add(1 - double(s.cached) / s.length(), 1, prompts_remembered);
}

double Deadlines::rows_to_read(const Sequence& s) const {
  return (s.length() - s.cached) * (s.running() ? 1 : read_.value);
}

/// Returns none as long as no step was timed, whatever the prior says: nobody is refused for a
/// guess.
std::optional<double> Deadlines::seconds_needed(const Sequence& s) const {
  if (!cost_.is_measured())
    return std::nullopt;
  int decoding = 0;
  double context = 0;
  double rows = rows_to_read(s);
  const auto add_if_before = [&](const Sequence& other) {
    if (&other != &s && QueueOrder::before(other, s))
      rows += rows_to_read(other);
  };
  for (const auto& [id, other] : sequences_) {
    context += other.cached;
    if (other.running() && other.decoding())
      ++decoding;
    else
      add_if_before(other);
  }
  for (const auto& [id, other] : sequences_.queued())
    add_if_before(other);
  const auto reading = *cost_.predict(decoding + config_.prefill_chunk, context);
  const auto step = *cost_.predict(decoding + 1, context);
  const speculation::SpeculationPolicy& policy = drafting_.planning.policy();
  const double tokens_a_step =
      sampling::theory::expected_tokens(policy.acceptance(), drafting_.planning.plan_for(s).window);
  return rows / config_.prefill_chunk * base::seconds(reading) +
         (least_output(s) - 1) / tokens_a_step * base::seconds(step);
}

std::optional<Error> Deadlines::refusal(const Sequence& s, base::TimePoint now) const {
  if (config_.scheduling != SchedulingPolicy::deadline || !s.deadline || s.started ||
      s.output() > 0)
    return std::nullopt;
  const double left = base::seconds(*s.deadline - now);
  const auto needed = seconds_needed(s);
  if (!needed || *needed <= left)
    return std::nullopt;
  return Error{ErrorCode::deadline,
               fmt::format("the request would take {:.3g} s and has {:.3g} s left", *needed,
                           std::max(left, 0.0)),
               "allow more time, ask for less, or ask again when less is waited for"};
}

} // namespace paceline::scheduling
