#include "speculation/window_shares.hpp"

#include "sampling/theory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>

namespace paceline::speculation {
namespace {

namespace theory = sampling::theory;

/// A row that a sequence might have.
struct Bid {
  double gain = 0;
  int token = 0;
  std::size_t sequence = 0;
};

/// Returns all bids, the rows worth most first, and those of a sequence in their order.
std::vector<Bid> bids_of(std::span<const WindowGains> sequences, int longest) {
  std::vector<Bid> bids;
  for (std::size_t i = 0; i < sequences.size(); ++i)
    for (int token = 1; token <= std::min(sequences[i].tokens(), longest); ++token)
      bids.push_back({sequences[i][token], token, i});
  std::ranges::sort(bids, [](const Bid& a, const Bid& b) {
    return std::tuple(-a.gain, a.sequence, a.token) < std::tuple(-b.gain, b.sequence, b.token);
  });
  return bids;
}

/// A choice of how many bids are met, and of how long windows may be.
struct Choice {
  double rate = 0;
  std::size_t bids = 0;
  int depth = 0;
};

/// Finds the best number of bids, in their order, for each depth, and returns the best of all: rows
/// that cost nothing are taken while there are any, and dearer ones as long as they are worth it. A
/// depth ends where even all its bids would bring too little if they took no time at all.
Choice best_choice(std::span<const Bid> bids, const ShareTerms& terms) {
  std::array<double, WindowGains::tokens_max + 1> gains{}; // gain of all bids, by token
  for (const Bid& bid : bids)
    gains[std::size_t(bid.token)] += bid.gain;
  std::vector<double> seconds{terms.seconds(terms.rows)}; // seconds of a step, by bids that are met
  Choice best{terms.rows / seconds[0], 0, 0};
  const int first = terms.drafting ? 1 : terms.longest;
  for (int depth = first; depth <= terms.longest; ++depth) {
    const auto end = gains.begin() + std::min(depth, WindowGains::tokens_max) + 1;
    const double most = std::accumulate(gains.begin(), end, double(terms.rows));
    const double drafting = terms.drafting ? terms.drafting(depth) : 0;
    double tokens = terms.rows;
    std::size_t rows = 0;
    for (std::size_t i = 0; i < bids.size() && terms.rows + int(rows) < terms.rows_max; ++i) {
      if (most <= best.rate * (seconds[rows] + drafting))
        break;
      if (bids[i].token > depth)
        continue;
      tokens += bids[i].gain;
      if (++rows == seconds.size())
        seconds.push_back(terms.seconds(terms.rows + int(rows)));
      const double rate = tokens / (seconds[rows] + drafting);
      if (rate > best.rate)
        best = {rate, i + 1, depth};
    }
  }
  return best;
}

} // namespace

void WindowGains::add(double gain) {
  const double most = tokens_ == 0 ? gain : std::min(gain, gains_[std::size_t(tokens_ - 1)]);
  if (most > 0 && tokens_ < tokens_max)
    gains_[std::size_t(tokens_++)] = most;
}

WindowGains WindowGains::synchronous(double acceptance, int tokens) {
  WindowGains gains;
  double reached = 1;
  for (int token = 0; token < tokens; ++token)
    gains.add(reached *= acceptance);
  return gains;
}

WindowGains WindowGains::overlapped(double acceptance, std::span<const double> hits) {
  WindowGains gains;
  double before = 1;
  for (std::size_t window = 1; window < hits.size(); ++window) {
    const double tokens = OverlappedSequence(acceptance, hits.first(window + 1)).rate();
    gains.add(tokens - before);
    before = tokens;
  }
  return gains;
}

/// A sequence without a window gets a token, and goes on with what was drafted meanwhile if that is
/// what was to follow.
OverlappedSequence::OverlappedSequence(double acceptance, std::span<const double> hits)
    : acceptance_(acceptance), hits_(hits.begin(), hits.end()) {
  const double tokens = theory::expected_tokens(acceptance, int(hits.size()) - 1);
  const double changes = std::max(hits.front(), 1e-3) + 1 - hits.back();
  rate_ = (hits.front() * tokens + 1 - hits.back()) / changes;
  readiness_ = (tokens - 1) / changes;
}

double OverlappedSequence::value(int bound) const {
  return theory::expected_tokens(acceptance_, bound) + hits_[std::size_t(bound)] * readiness_;
}

WindowShares share_windows(std::span<const WindowGains> sequences, const ShareTerms& terms) {
  const std::vector<Bid> bids = bids_of(sequences, terms.longest);
  const Choice best = best_choice(bids, terms);
  WindowShares shares{std::vector<int>(sequences.size()), best.rate};
  int scouts = terms.scouts;
  for (std::size_t i = 0; i < bids.size(); ++i) {
    const auto& [gain, token, sequence] = bids[i];
    const bool met = (i < best.bids && token <= best.depth) || token <= terms.shortest;
    if (met || (token == 1 && scouts > 0))
      shares.windows[sequence] = token;
    scouts -= token == 1;
  }
  return shares;
}

} // namespace paceline::speculation
