#include "scheduling/request_mix.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::scheduling {

namespace {

constexpr double requests_remembered = 32;
constexpr double as_good = 1.005;

} // namespace

void RequestMix::Part::add(double work, double of) {
  became.add(work, 1, requests_remembered);
  asked.add(of, 1, requests_remembered);
}

double RequestMix::Part::of(double amount) const {
  return asked.value > 0 ? amount * became.value / asked.value : amount;
}

void RequestMix::ended(const RequestWork& work, const RequestWork& asked) {
  if (work.rounds <= 0)
    return;
  prompt_rows_.add(work.prompt_rows, asked.prompt_rows);
  rounds_.add(work.rounds, asked.rounds);
}

RequestWork RequestMix::expected(const RequestWork& asked) const {
  return {prompt_rows_.of(asked.prompt_rows), rounds_.of(asked.rounds)};
}

/// There are n steps with a chunk of the prompt, D rounds to an answer and B places. Either prompts
/// are there all the time, and all rows of requests come in such steps; or answers take longer, and
/// a place is free for the next prompt every (n + D) / B steps. That prompt is alone, so n is whole
/// and the last chunk is what remains.
double seconds_of_request(const StepCost& cost, const RequestWork& work, const StepShares& shares,
                          int rows) {
  const auto step = [&](double rows_of_step) {
    const int whole = std::max(1, int(std::lround(rows_of_step)));
    return base::seconds(*cost.predict_least(whole, shares.context));
  };
  const double others = shares.sequences - 1;
  const double steps = (work.prompt_rows + work.rounds * shares.rows_a_sequence) / rows;
  if (steps * others >= work.rounds)
    return steps * step(rows);
  const double decoding = others * shares.rows_a_sequence;
  const double chunk = rows - decoding;
  const double whole = std::ceil(work.prompt_rows / chunk) - 1;
  const double without = std::max(0.0, (work.rounds - (whole + 1) * others) / shares.sequences);
  return whole * step(rows) + step(work.prompt_rows - whole * chunk + decoding) +
         without * step(decoding + shares.rows_a_sequence);
}

int best_step_rows(const StepCost& cost, const RequestWork& work, const StepShares& shares,
                   int most) {
  if (!cost.predict(1, 0) || work.prompt_rows <= 0 || work.rounds <= 0 || shares.sequences < 1)
    return most;
  const double decoding = (shares.sequences - 1) * shares.rows_a_sequence;
  double least = std::numeric_limits<double>::infinity();
  int best = most;
  for (int rows = most / limits::row_tile * limits::row_tile; rows > decoding;
       rows -= limits::row_tile) {
    const double seconds = seconds_of_request(cost, work, shares, rows);
    if (seconds <= as_good * least)
      best = rows;
    least = std::min(least, seconds);
  }
  return best;
}

} // namespace paceline::scheduling
