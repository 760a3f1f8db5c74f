#include "speculation/policy.hpp"

#include "sampling/theory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace paceline::speculation {

namespace theory = sampling::theory;

namespace {

constexpr double round_memory = 24;        // rounds that a mode's mean time is taken over
constexpr double clear_lead = 1.03;        // a rate below this lead changes nothing
constexpr double window_lead = 1.02;       // the same for windows
constexpr double fork_window_lead = 1.005; // a change of windows costs forks nothing
constexpr double least_lead = 1.01;        // below it forks are not worth their memory
constexpr double probe_budget = 0.0075;
constexpr int first_pause = 12;
constexpr int longest_pause = 2048;
constexpr int longest_costly_pause = 16 * longest_pause;
constexpr int rounds_per_lookahead = 16; // its choice takes some thousand operations
constexpr double guesses_wanted = 64;    // rejections, before forks are judged by their odds
constexpr int rounds_per_guess = 8;      // between looks at them, afterwards

constexpr SpeculationMode all_modes[] = {SpeculationMode::off, SpeculationMode::sync,
                                         SpeculationMode::overlap};

/// Rounds without the model are of one kind, whether or not a look-up drafts.
SpeculationMode arm_of(const RoundObservation& round) {
  return round.model ? round.mode : SpeculationMode::off;
}

} // namespace

SpeculationPolicy::SpeculationPolicy(PolicyOptions options)
    : options_(options),
      estimates_(options.prior_acceptance, options.prior_cost_ratio, options.row_cost) {
  enter_load(1);
  choose_windows();
  choose_lookahead();
}

double SpeculationPolicy::acceptance() const {
  return estimates_.acceptance(plan().model);
}

/// Behind a hit nobody waits for the draft.
double SpeculationPolicy::window_cost(SpeculationMode mode, int window, double acceptance) const {
  const double exposed = mode == SpeculationMode::overlap ? 1 - hit(acceptance, window) : 1;
  return window * (exposed * cost_ratio() + estimates_.v_slope(sequences_));
}

double SpeculationPolicy::cost_ratio() const {
  return estimates_.cost_ratio(sequences_);
}

double SpeculationPolicy::v(int rows) const {
  const double one = estimates_.target_seconds(1);
  return one > 0 ? estimates_.target_seconds(rows) / one : 1;
}

Plan SpeculationPolicy::plan() const {
  const bool probing = load().probe_rounds > 0 && !prefill_;
  Plan plan{probing ? load().probed : load().mode, 0, 0};
  plan.probes = probing;
  plan.window = load().arms[std::size_t(plan.mode)].choice;
  if (plan.mode == SpeculationMode::off && options_.lookup) {
    plan.mode = SpeculationMode::sync;
    plan.model = false;
  }
  if (plan.mode == SpeculationMode::overlap && options_.lookahead != Lookahead::none) {
    if (forks_)
      plan.window = fork_window_;
    plan.lookahead = plan.window + 1;
    plan.fork_rows = forks_ ? fork_rows_ * int(sequences_) : 0;
  }
  plan.learns_guesses =
      plan.fork_rows == 0 && may_fork() &&
      (estimates_.guesses_seen() < guesses_wanted || rounds_ % rounds_per_guess == 0);
  return plan;
}

bool SpeculationPolicy::worth_waiting(int bound, int window) const {
  if (bound >= window)
    return false;
  if (plan().mode == SpeculationMode::sync)
    return true;
  const double a = acceptance();
  const double c = cost_ratio();
  const double slope = estimates_.v_slope(sequences_);
  const auto rate_with = [&](int k) {
    return theory::expected_tokens(a, k) / ((k - bound) * c + 1 + k * slope);
  };
  for (int k = bound + 1; k <= window; ++k)
    if (rate_with(k) > rate_with(bound))
      return true;
  return false;
}

void SpeculationPolicy::observe(const RoundObservation& round) {
  if (round.sequences == 0)
    return;
  estimates_.observe(round);
  enter_load(round.sequences);
  choose_windows();
  if (rounds_++ % rounds_per_lookahead == 0)
    choose_lookahead();
  prefill_ = round.prefill;
  if (!prefill_) {
    time(round);
    if (options_.mode == SpeculationMode::automatic)
      steer();
  }
  last_mode_ = prefill_ ? SpeculationMode::automatic : arm_of(round);
}

/// A new load starts in the mode that is in use. With fewer sequences speculation pays more, and so
/// does overlap: what lost to them before is not tried again any sooner.
void SpeculationPolicy::enter_load(int sequences) {
  Load before = load();
  if (!before.known)
    before.mode =
        options_.mode == SpeculationMode::automatic ? SpeculationMode::sync : options_.mode;
  const std::size_t from = std::exchange(
      load_, std::min<std::size_t>(std::bit_width(unsigned(sequences - 1)), loads - 1));
  sequences_ = sequences;
  if (load().known)
    return;
  load().known = true;
  load().mode = before.mode;
  for (auto mode : all_modes) {
    arm(mode).pause = arm(mode).pause_at_least = first_pause;
    if (load_ < from && mode < before.mode)
      arm(mode).pause = std::max(first_pause, before.arms[std::size_t(mode)].pause);
  }
}

bool SpeculationPolicy::open_to(SpeculationMode mode) const {
  return mode != SpeculationMode::overlap || options_.lookahead != Lookahead::none;
}

/// Tokens per second and sequence; 0 for a mode that was never timed.
double SpeculationPolicy::rate(SpeculationMode mode) const {
  const Arm& arm = load().arms[std::size_t(mode)];
  if (arm.seconds.weight == 0)
    return 0;
  const bool looks_up = mode == SpeculationMode::off && options_.lookup;
  return (looks_up ? estimates_.tokens_without(arm.expected.value)
                   : estimates_.tokens(arm.window.value)) /
         arm.seconds.value;
}

/// What a look-up writes costs nothing.
void SpeculationPolicy::choose_windows() {
  const double a = estimates_.acceptance();
  const double c = cost_ratio() * estimates_.model_share();
  const double slope = estimates_.v_slope(sequences_);
  const int limit = options_.window_limit;
  const auto settle = [&](int& choice, int best, auto rate_with) {
    if (options_.window)
      choice = *options_.window;
    else if (choice == 0 || rate_with(best) > window_lead * rate_with(choice))
      choice = best;
  };
  settle(arm(SpeculationMode::sync).choice, theory::best_window_sync(a, c, slope, limit),
         [&](int k) { return theory::sync_rate(a, k, c, 1 + k * slope); });
  if (options_.lookup) {
    const double alone = estimates_.acceptance(false);
    settle(arm(SpeculationMode::off).choice, theory::best_window_sync(alone, 0, slope, limit),
           [&](int k) { return theory::sync_rate(alone, k, 0, 1 + k * slope); });
  }
  settle(
      arm(SpeculationMode::overlap).choice, theory::best_window_overlap(a, c, slope, limit),
      [&](int k) { return theory::overlap_rate(a, k, c, 1 + k * slope, theory::chain_hit(a, k)); });
}

/// Where what is drafted ahead is chosen, and there may be a row for each sequence.
bool SpeculationPolicy::may_fork() const {
  const bool overlaps =
      options_.mode == SpeculationMode::automatic || options_.mode == SpeculationMode::overlap;
  const bool forks =
      options_.lookahead == Lookahead::automatic || options_.lookahead == Lookahead::fork;
  return overlaps && forks && fork_rows_max() > 0;
}

int SpeculationPolicy::fork_rows_min() const {
  return std::max(1, int(options_.fork_rows / sequences_));
}

int SpeculationPolicy::fork_rows_max() const {
  return std::min(options_.fork_rows, int(options_.fork_rows_all / sequences_));
}

double SpeculationPolicy::fork_rate(double acceptance, int window, int rows, double hit) const {
  return theory::fork_rate(acceptance, window, cost_ratio(),
                           estimates_.fork_cost_ratio(sequences_, rows * sequences_),
                           1 + window * estimates_.v_slope(sequences_), hit);
}

/// One sequence has all rows. Several share them, and have more as long as more bring something for
/// what they cost, which is nothing where a pass of the draft takes the time that its weights take
/// to be read.
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

/// A chain or forks, by what each should bring with its best window. Times that `overlap` showed
/// with the other kind are forgotten.
void SpeculationPolicy::choose_lookahead() {
  const bool before = std::exchange(forks_, false);
  if (!may_fork())
    return;
  const Odds odds = estimates_.odds();
  const Forks best = best_forks(odds);
  fork_window_ = best.window;
  fork_rows_ = best.rows;
  estimate_covered(odds);
  const int chain = arm(SpeculationMode::overlap).choice;
  const double a = odds.acceptance;
  const double chain_rate =
      theory::overlap_rate(a, chain, cost_ratio(), 1 + chain * estimates_.v_slope(sequences_),
                           theory::chain_hit(a, chain));
  const double lead = best.rate / chain_rate;
  forks_ = options_.lookahead == Lookahead::fork || lead > (before ? least_lead : clear_lead);
  if (forks_ != before) {
    arm(SpeculationMode::overlap).seconds.limit(1);
    arm(SpeculationMode::overlap).window.limit(1);
  }
}

void SpeculationPolicy::estimate_covered(const Odds& odds) {
  for (std::size_t window = 1; window < covered_.size(); ++window) {
    const double chain = theory::chain_hit(odds.acceptance, int(window));
    covered_[window] = chain < 1 ? (odds.hit(int(window), fork_rows_) - chain) / (1 - chain) : 0;
  }
}

double SpeculationPolicy::hit(double acceptance, int window) const {
  const double chain = theory::chain_hit(acceptance, window);
  const auto known = std::min(std::size_t(window), covered_.size() - 1);
  return chain + (forks_ ? covered_[known] * (1 - chain) : 0);
}

/// A lookahead has to fit under a step, where nobody waits for it, and begins half a pass late: the
/// verdict before finds the draft in the middle of one.
WindowGains SpeculationPolicy::gains(SpeculationMode mode, double acceptance) const {
  const int limit = std::min(options_.window_limit, WindowGains::tokens_max);
  if (mode != SpeculationMode::overlap || options_.lookahead == Lookahead::none)
    return WindowGains::synchronous(acceptance, limit);
  const int hidden = int(1 / std::max(cost_ratio(), 1e-3) - 0.5) - 1;
  std::array<double, WindowGains::tokens_max + 1> hits{1};
  const int longest = std::clamp(hidden, 1, limit);
  for (int window = 1; window <= longest; ++window)
    hits[std::size_t(window)] = hit(acceptance, window);
  return WindowGains::overlapped(acceptance, std::span(hits).first(std::size_t(longest) + 1));
}

/// The first round after a change of mode, or after prefill, is not typical of its mode; nor is one
/// that stalled.
void SpeculationPolicy::time(const RoundObservation& round) {
  if (arm_of(round) != last_mode_)
    return;
  Arm& used = arm(arm_of(round));
  used.seconds.add(unless_stalled(round.round_seconds, used.seconds.value), 1, round_memory);
  used.window.add(estimates_.mean_window(round), 1, round_memory);
  used.expected.add(estimates_.expected_tokens(round), 1, round_memory);
}

void SpeculationPolicy::steer() {
  if (load().probe_rounds > 0) {
    if (--load().probe_rounds == 0)
      end_probe();
    return;
  }
  const double present = rate(load().mode);
  for (auto mode : all_modes)
    if (rate(mode) > clear_lead * present && present > 0)
      return follow(mode);
  for (auto mode : all_modes)
    if (mode != load().mode && open_to(mode) && --arm(mode).pause <= 0)
      return begin_probe(mode);
}

/// Rounds; the first is not timed. Plain rounds are all alike, others bring luck with them.
int SpeculationPolicy::probe_length(SpeculationMode mode) const {
  return mode == SpeculationMode::off && !options_.lookup ? 5 : 12;
}

void SpeculationPolicy::begin_probe(SpeculationMode mode) {
  load().probed = mode;
  load().probe_rounds = probe_length(mode);
  arm(mode).seconds.limit(1);
  arm(mode).window.limit(1);
  arm(mode).expected.limit(1);
  if (load().mode == SpeculationMode::off)
    estimates_.doubt_acceptance();
}

void SpeculationPolicy::end_probe() {
  const SpeculationMode probed = load().probed;
  if (rate(probed) > clear_lead * rate(load().mode))
    return follow(probed);
  arm(probed).pause_at_least = std::min(2 * arm(probed).pause_at_least, longest_pause);
  arm(probed).pause = pause_before(probed);
}

/// So many rounds that a probe which loses as much as it would by what is known stays within the
/// budget.
int SpeculationPolicy::pause_before(SpeculationMode mode) const {
  const Arm& probed = load().arms[std::size_t(mode)];
  const Arm& present = load().arms[std::size_t(load().mode)];
  const double found = rate(mode);
  const double known = rate(load().mode);
  if (found == 0 || known == 0)
    return probed.pause_at_least;
  const double loss = 1 - found / known;
  const double rounds = probe_length(mode) * probed.seconds.value / present.seconds.value;
  const double pause = std::min(loss * rounds / probe_budget, double(longest_costly_pause));
  return std::max(probed.pause_at_least, int(pause));
}

/// What is known of the others stays known: the one that was left, and those that lost to it.
void SpeculationPolicy::follow(SpeculationMode mode) {
  load().mode = mode;
  for (auto other : all_modes) {
    arm(other).pause_at_least = first_pause;
    arm(other).pause = pause_before(other);
  }
}

} // namespace paceline::speculation
