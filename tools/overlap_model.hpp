// Chain lookahead on two lanes, played out in times alone: no actors, no tokens. The runtime on
// `sim` devices is measured against it where the closed form (docs/theory.md) does not reach,
// that is, where a whole lookahead takes longer than a verification: (K+1) c > v.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

namespace paceline::tools {

struct OverlapModel {
  double target_ms = 14.1; ///< Verification of K+1 rows, whatever K.
  double draft_ms = 1.8;   ///< One drafted token.
  double acceptance = 0.8; ///< Of each judged token, independently.
  int window = 4;          ///< K, at least 1.
  bool lookahead = true;   ///< Overlap; false: sync.
};

struct OverlapResult {
  double tokens_per_second = 0;
  double hit_rate = 0; ///< Rounds whose lookahead came true, over all rounds.
};

/// When the draft can begin anew after a miss. It has drafted since `begin`, at most K+1 tokens,
/// and ends the token it is at.
inline double draft_free(const OverlapModel& model, double begin, double verdict) {
  constexpr double rounding = 1e-9;
  const double drawn = std::ceil((verdict - begin) / model.draft_ms - rounding);
  const double at_most = model.window + 1;
  return std::max(verdict, begin + std::min(drawn, at_most) * model.draft_ms);
}

/// Plays rounds of one sequence, the first window already drafted. A function of its arguments.
/// A round begins when its window is complete and the target free; the draft goes on in the same
/// moment, so that the lookahead's first token is always bound when the pass ends.
inline OverlapResult simulate(const OverlapModel& model, int rounds, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto accepted = [&] { return double(random() >> 11) * 0x1p-53 < model.acceptance; };
  const double window_ms = model.window * model.draft_ms;

  double begin = 0; // of the round's target pass, and of its lookahead
  double verdict = 0;
  std::int64_t tokens = 0;
  std::int64_t hits = 0;
  for (int round = 0; round < rounds; ++round) {
    verdict = begin + model.target_ms;
    int kept = 0;
    while (kept < model.window && accepted())
      ++kept;
    bool hit = false;
    if (model.lookahead && kept == model.window) {
      verdict = std::max(verdict, begin + model.draft_ms); // the bound token is waited for
      hit = accepted();
    }
    tokens += kept + 1; // the one more: residual, bonus, or the lookahead's first
    hits += hit;
    if (hit) // the other K tokens of the lookahead are the next window
      begin = std::max(verdict, begin + window_ms + model.draft_ms);
    else if (model.lookahead)
      begin = draft_free(model, begin, verdict) + window_ms;
    else
      begin = verdict + window_ms;
  }
  return {1000.0 * double(tokens) / verdict, double(hits) / rounds};
}

} // namespace paceline::tools
