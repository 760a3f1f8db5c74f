#include "speculation/window_shares.hpp"

#include "sampling/theory.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::speculation {
namespace {

namespace theory = sampling::theory;

/// A row that a sequence might have.
struct Bid {
  double gain = 0;
  int token = 0;
  std::size_t sequence = 0;
};

/// The rows worth most come first, and those of a sequence in their order.
std::vector<Bid> bids_of(std::span<const WindowGains> sequences, int longest) {
  std::vector<Bid> bids;
  for (std::size_t i = 0; i < sequences.size(); ++i)
    for (int token = 1; token <= std::min(sequences[i].tokens(), longest); ++token)
      bids.push_back({sequences[i][token], token, i});
  std::ranges::stable_sort(bids, [](const Bid& a, const Bid& b) { return a.gain > b.gain; });
  return bids;
}

/// How many bids are met, and how deep they are.
struct Choice {
  double rate = 0;
  std::size_t bids = 0;
  int depth = 0;
};

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
    const double tokens = OverlappedSequence(acceptance, int(window), hits[window]).rate();
    gains.add(tokens - before);
    before = tokens;
  }
  return gains;
}

/// Without a window it gets a token, and goes on with what was drafted meanwhile if the first of
/// that is accepted.
OverlappedSequence::OverlappedSequence(double acceptance, int window, double hit)
    : acceptance_(std::max(acceptance, 1e-3)), window_(window), hit_(hit) {
  const double tokens = theory::expected_tokens(acceptance_, window);
  const double changes = acceptance_ + 1 - hit;
  rate_ = (acceptance_ * tokens + 1 - hit) / changes;
  readiness_ = (tokens - 1) / changes;
}

double OverlappedSequence::value(int bound) const {
  const double hit = bound < window_ ? theory::chain_hit(acceptance_, bound) : hit_;
  return theory::expected_tokens(acceptance_, std::min(bound, window_)) + hit * readiness_;
}

/// For each depth the best number of bids, by their order: rows that cost nothing are taken while
/// there are any, and dearer ones as long as they are worth it.
std::vector<int> share_windows(std::span<const WindowGains> sequences, const ShareTerms& terms) {
  const std::vector<Bid> bids = bids_of(sequences, terms.longest);
  std::vector<double> seconds(bids.size() + 1);
  for (std::size_t more = 0; more <= bids.size(); ++more)
    seconds[more] = terms.seconds(terms.rows + int(more));
  Choice best{terms.rows / seconds[0], 0, 0};
  const int depths = terms.drafting > 0 ? terms.longest : std::min(terms.longest, 1);
  for (int step = 1; step <= depths; ++step) {
    const int depth = terms.drafting > 0 ? step : terms.longest;
    double tokens = terms.rows;
    std::size_t rows = 0;
    for (std::size_t i = 0; i < bids.size() && terms.rows + int(rows) < terms.rows_max; ++i) {
      if (bids[i].token > depth)
        continue;
      tokens += bids[i].gain;
      const double rate = tokens / (seconds[++rows] + depth * terms.drafting);
      if (rate > best.rate)
        best = {rate, i + 1, depth};
    }
  }
  std::vector<int> windows(sequences.size());
  int scouts = terms.scouts;
  for (std::size_t i = 0; i < bids.size(); ++i) {
    const auto& [gain, token, sequence] = bids[i];
    const bool met = (i < best.bids && token <= best.depth) || token <= terms.shortest;
    if (met || (token == 1 && scouts > 0))
      windows[sequence] = token;
    scouts -= token == 1;
  }
  return windows;
}

} // namespace paceline::speculation
