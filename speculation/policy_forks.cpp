// The policy's choice of forks, and of rows beside windows.
#include "sampling/theory.hpp"
#include "speculation/policy.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace paceline::speculation {

namespace theory = sampling::theory;

namespace {

constexpr double fork_window_lead = 1.005; // a change of windows costs forks nothing
constexpr double least_lead = 1.01;        // below it forks are not worth their memory
constexpr double guesses_first = 8;        // rejections, before rows stand beside windows
constexpr int tree_rows_first = 16;        // most rows at first; later twice as many as before

} // namespace

/// Says whether the options allow forks, and there may be a row for each sequence.
bool SpeculationPolicy::may_fork() const {
  const bool overlaps =
      options_.mode == SpeculationMode::automatic || options_.mode == SpeculationMode::overlap;
  return overlaps && writes_forks() && fork_rows_max() > 0;
}

bool SpeculationPolicy::writes_forks() const {
  return options_.lookahead == Lookahead::automatic || options_.lookahead == Lookahead::fork;
}

int SpeculationPolicy::fork_rows_min() const {
  return std::max(1, options_.fork_rows / sequences_);
}

int SpeculationPolicy::fork_rows_max() const {
  return std::min(options_.fork_rows, options_.fork_rows_all / sequences_);
}

double SpeculationPolicy::fork_rate(double acceptance, int window, int rows, double hit) const {
  const double c = cost_ratio();
  const double plain = step_(sequences_);
  const double forks = plain > 0 ? estimates_.fork_seconds(rows * sequences_) / plain : 0;
  return theory::fork_rate(acceptance, window, c, c + forks, v(window), hit, sharing_);
}

/// Returns the best forks. One sequence has all rows. Several share them, and have more as long as
/// more are worth their cost, which is nothing where a pass of the draft takes the time of reading
/// its weights.
SpeculationPolicy::Forks SpeculationPolicy::best_forks(const Odds& odds) const {
  const int most = fork_rows_max();
  Forks best;
  Forks present;
  const int first = options_.window.value_or(1);
  const int last = options_.window.value_or(options_.window_limit);
  for (int window = first; window <= last; ++window) {
    const std::vector<double> hits = odds.hits(window, most);
    for (int rows = fork_rows_min(); rows <= most; ++rows) {
      const Forks forks{window, rows,
                        fork_rate(odds.acceptance, window, rows, hits[std::size_t(rows)])};
      if (forks.rate > best.rate)
        best = forks;
      if (window == fork_window_ && rows == std::clamp(fork_rows_, fork_rows_min(), most))
        present = forks;
    }
  }
  return best.rate < fork_window_lead * present.rate ? present : best;
}

/// Chooses between a chain and forks by what each should bring with its best window. The times that
/// `overlap` showed with the other kind are forgotten.
void SpeculationPolicy::choose_lookahead() {
  const bool before = std::exchange(forks_, false);
  if (!may_fork())
    return;
  const Odds odds = estimates_.odds();
  const Forks best = best_forks(odds);
  fork_window_ = best.window;
  fork_rows_ = best.rows;
  fork_rate_ = best.rate;
  estimate_covered(odds);
  double chain_rate = 0; // rated as forks are: whole windows are waited for
  const int first = options_.window.value_or(1);
  const int last = options_.window.value_or(options_.window_limit);
  for (int window = first; window <= last; ++window)
    chain_rate =
        std::max(chain_rate, theory::overlap_rate(odds.acceptance, window, cost_ratio(), v(window),
                                                  theory::chain_hit(odds.acceptance, window),
                                                  {.sharing = sharing_}));
  const double lead = best.rate / chain_rate;
  forks_ = options_.lookahead == Lookahead::fork || lead > (before ? least_lead : clear_lead);
  if (forks_ != before) {
    arm(Strategy::overlap).seconds.limit(1);
    arm(Strategy::overlap).window.limit(1);
  }
}

/// Says whether windows of `sync` may have rows beside them.
bool SpeculationPolicy::may_branch() const {
  return options_.tree_rows_max > 0 && options_.mode != SpeculationMode::off &&
         options_.mode != SpeculationMode::overlap;
}

/// Returns the seconds of a step in which each sequence has a window and so many rows beside it.
double SpeculationPolicy::tree_seconds(int window, int rows) const {
  return least_step_(sequences_ * (window + 1 + rows));
}

/// Returns the tokens a second with so many rows beside a window that is waited for, which bring
/// `gain` tokens, and so many forks in each pass of the draft.
double SpeculationPolicy::tree_rate(int window, int rows, int forks, double gain) const {
  const double pass =
      cost_ratio() * step_(sequences_) + estimates_.fork_seconds(forks * sequences_);
  return (theory::expected_tokens(estimates_.acceptance(), window) + gain) /
         (window * pass + tree_seconds(window, rows));
}

/// Chooses the rows beside windows of `sync`, of guesses alone or with what is drafted behind them,
/// by what they should bring and cost. There are not many more at once, since a size that no step
/// had may cost more than it seems. The times that such rounds showed with them, or without, are
/// forgotten.
void SpeculationPolicy::choose_tree() {
  const int before = std::exchange(tree_, {}).rows;
  if (!may_branch())
    return;
  const auto forks_of = [this](int rows) {
    return writes_forks() ? std::min((rows + 1) / 2, options_.fork_rows) : 0;
  };
  if (options_.tree_rows) {
    tree_.rows = std::min(*options_.tree_rows, options_.tree_rows_max);
    tree_.forks = forks_of(tree_.rows); // about half of the rows are guesses
    return;
  }
  if (estimates_.guesses_seen() < guesses_first || step_(sequences_) <= 0)
    return;
  const Arm& sync = arm(Strategy::sync);
  const bool timed = sync.window.weight >= rounds_timed;
  const int window = std::max(1, timed ? int(std::lround(sync.window.value)) : sync.choice);
  const int most = std::min(options_.tree_rows_max, std::max(tree_rows_first, 2 * before));
  double best = tree_rate(window, 0, 0, 0) * (before > 0 ? least_lead : clear_lead);
  for (const bool behind : {false, true}) {
    const std::vector<double> gains = estimates_.odds().tree_gains(window, most, behind);
    for (int rows = 1; rows <= most; ++rows) {
      const int forks = behind ? forks_of(rows) : 0;
      const double rate = tree_rate(window, rows, forks, gains[std::size_t(rows)]);
      if (rate <= best || (behind && forks == 0))
        continue;
      best = rate;
      const double longer = tree_seconds(window, rows) - tree_seconds(window, 0);
      tree_ = {rows, forks, rate * longer / rows};
    }
  }
  if ((tree_.rows > 0) != (before > 0)) {
    arm(Strategy::sync).seconds.limit(1);
    arm(Strategy::sync).window.limit(1);
    arm(Strategy::sync).expected.limit(1);
  }
}

void SpeculationPolicy::estimate_covered(const Odds& odds) {
  for (std::size_t window = 0; window < covered_.size(); ++window) {
    const double chain = theory::chain_hit(odds.acceptance, int(window));
    covered_[window] = chain < 1 ? (odds.hit(int(window), fork_rows_) - chain) / (1 - chain) : 0;
  }
}

} // namespace paceline::speculation
