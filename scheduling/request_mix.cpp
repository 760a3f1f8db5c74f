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

void RequestMix::ended(const RequestWork& work) {
  if (work.rounds <= 0)
    return;
  prompt_rows_.add(work.prompt_rows, 1, requests_remembered);
  rounds_.add(work.rounds, 1, requests_remembered);
}

std::optional<RequestWork> RequestMix::average() const {
  if (rounds_.weight == 0)
    return std::nullopt;
  return RequestWork{prompt_rows_.value, rounds_.value};
}

/// There are n chunks to a prompt, D rounds to an answer and B places. Either prompts are there all
/// the time, and as many others decode as their answers take; or answers take longer, and a place
/// is free for the next prompt every (n + D) / B steps, of which n have a chunk.
double seconds_of_request(const StepCost& cost, const RequestWork& work, const StepShares& shares,
                          int prompt_rows) {
  const auto step = [&](double rows) {
    return base::seconds(*cost.predict_least(std::max(1, int(std::lround(rows))), shares.context));
  };
  const double places = shares.sequences;
  const double chunks = work.prompt_rows / prompt_rows;
  if (chunks * (places - 1) >= work.rounds)
    return chunks * step(prompt_rows + work.rounds / chunks * shares.rows_a_sequence);
  const double steps = (chunks + work.rounds) / places;
  return chunks * step(prompt_rows + (places - 1) * shares.rows_a_sequence) +
         (steps - chunks) * step(places * shares.rows_a_sequence);
}

int best_prompt_rows(const StepCost& cost, const RequestWork& work, const StepShares& shares,
                     int most) {
  if (!cost.predict(1, 0) || work.prompt_rows <= 0 || work.rounds <= 0 || shares.sequences < 1)
    return most;
  double least = std::numeric_limits<double>::infinity();
  int best = most;
  for (int rows = most / limits::row_tile * limits::row_tile; rows > 0; rows -= limits::row_tile) {
    const double seconds = seconds_of_request(cost, work, shares, rows);
    if (seconds <= as_good * least)
      best = rows;
    least = std::min(least, seconds);
  }
  return best;
}

} // namespace paceline::scheduling
