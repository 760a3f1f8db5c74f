#include "speculation/policy.hpp"

#include "sampling/theory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace paceline::speculation {

namespace theory = sampling::theory;

namespace {

constexpr double round_memory = 200; // rounds that a mode's time and tokens are means of
constexpr double probe_budget = 0.0075;
constexpr int first_pause = 12;
constexpr int longest_pause = 2048;
constexpr int longest_costly_pause = 16 * longest_pause;
constexpr double slope_memory = 1000;    // rounds; a pair and a machine change little
constexpr double slope_spread = 20;      // squared tokens: some ten rounds of windows that differ
constexpr int rounds_per_lookahead = 16; // choosing it takes some thousand operations
constexpr double guesses_wanted = 64;    // rejections, before forks are judged by their odds
constexpr int rounds_per_tree = 8;
constexpr int rounds_per_guess = 8;      // rounds between looks at guesses, afterwards
constexpr int rounds_per_look = 16;      // rounds between looks at what passes add to steps
constexpr int rounds_per_dear_look = 64; // the same, where that is more than they bring
constexpr double longer_lead = 1.0001;   // a longer window with less than that is not better

} // namespace

SpeculationPolicy::Strategy SpeculationPolicy::strategy_of(SpeculationMode mode) {
  return mode == SpeculationMode::off    ? Strategy::without_model
         : mode == SpeculationMode::sync ? Strategy::sync
                                         : Strategy::overlap;
}

/// Rounds without the model are of one kind, whether or not a look-up drafts.
SpeculationPolicy::Strategy SpeculationPolicy::strategy_of(const RoundObservation& round) {
  return round.model ? strategy_of(round.mode) : Strategy::without_model;
}

SpeculationPolicy::SpeculationPolicy(PolicyOptions options, StepSeconds step, StepSeconds least)
    : options_(options), step_(std::move(step)), least_step_(std::move(least)),
      estimates_(options.prior_acceptance) {
  enter_load(1);
  choose_windows();
  choose_lookahead();
  choose_tree();
}

double SpeculationPolicy::acceptance() const {
  return estimates_.acceptance(plan().model);
}

/// Returns the cost of drafting that is waited for. Behind a hit nobody waits for the draft.
double SpeculationPolicy::drafting_cost(SpeculationMode mode, int window, double acceptance) const {
  const double exposed = mode == SpeculationMode::overlap ? 1 - hit(acceptance, window) : 1;
  return options_.passes(window) * exposed * cost_ratio();
}

double SpeculationPolicy::cost_ratio() const {
  const double drafting = estimates_.draft_seconds();
  const double plain = step_(sequences_);
  return drafting > 0 && plain > 0 ? drafting / plain : options_.prior_cost_ratio;
}

/// Returns the time of a step in which all sequences have such a window, in plain steps.
double SpeculationPolicy::v(int window) const {
  const double plain = step_(sequences_);
  return plain > 0 ? step_(sequences_ * (window + 1)) / plain : 1;
}

/// Returns the strategy of the next round, which may be a probe.
SpeculationPolicy::Strategy SpeculationPolicy::present() const {
  return load().probe_rounds > 0 && !prefill_ ? load().probed : load().strategy;
}

Plan SpeculationPolicy::plan() const {
  Plan plan = plan_of(present());
  plan.probes = load().probe_rounds > 0 && !prefill_;
  return plan;
}

Plan SpeculationPolicy::plan(SpeculationMode mode) const {
  return plan_of(strategy_of(mode));
}

/// A lookahead that is left to the engine, and not free, is drafted as far as it pays. Now and then
/// a round does the other thing, to learn what passes add to steps.
Plan SpeculationPolicy::plan_of(Strategy strategy) const {
  Plan plan;
  plan.window = arm(strategy).choice;
  plan.model = strategy != Strategy::without_model || !options_.lookup;
  if (strategy == Strategy::overlap)
    plan.mode = SpeculationMode::overlap;
  else if (strategy == Strategy::sync || options_.lookup)
    plan.mode = SpeculationMode::sync;
  if (plan.mode == SpeculationMode::overlap && options_.lookahead != Lookahead::none) {
    const bool looks = options_.shares_device && options_.lookahead == Lookahead::automatic &&
                       rounds_ % (ahead_pays_ ? rounds_per_look : rounds_per_dear_look) == 0;
    const bool ahead = ahead_pays_ != looks;
    const bool forks = forks_ && present() == Strategy::overlap;
    if (forks && ahead_pays_)
      plan.window = fork_window_;
    plan.lookahead = ahead ? plan.window + 1 : 0;
    plan.fork_rows = forks && ahead ? fork_rows_ * sequences_ : 0;
  }
  std::tie(plan.tree_rows, plan.tree_forks) = std::tie(tree_.rows, tree_.forks);
  const bool branches = strategy == Strategy::sync && plan.tree_rows > 0;
  plan.learns_guesses =
      plan.fork_rows == 0 && !branches && (may_fork() || may_branch()) &&
      (estimates_.guesses_seen() < guesses_wanted || rounds_ % rounds_per_guess == 0);
  return plan;
}

void SpeculationPolicy::observe(const RoundObservation& round) {
  if (round.sequences == 0)
    return;
  estimates_.observe(round);
  sharing_ = round.sharing;
  enter_load(round.sequences);
  choose_windows();
  if (rounds_ % rounds_per_lookahead == 0)
    choose_lookahead();
  if (rounds_++ % rounds_per_tree == 0)
    choose_tree();
  prefill_ = round.prefill;
  if (!prefill_) {
    time(round);
    if (options_.mode == SpeculationMode::automatic)
      steer();
  }
  last_strategy_.reset();
  if (!prefill_)
    last_strategy_ = strategy_of(round);
}

/// Goes over to a load. A new load starts in the mode that is in use. With fewer sequences
/// speculation pays more, and so does overlap: a mode that lost to them before is not tried again
/// any sooner.
void SpeculationPolicy::enter_load(int sequences) {
  Load before = load();
  if (!before.known)
    before.strategy =
        options_.mode == SpeculationMode::automatic ? Strategy::sync : strategy_of(options_.mode);
  const std::size_t from = std::exchange(
      load_, std::min<std::size_t>(std::bit_width(unsigned(sequences - 1)), loads - 1));
  sequences_ = sequences;
  if (load().known)
    return;
  load().known = true;
  load().strategy = before.strategy;
  for (const Strategy one : all_strategies) {
    arm(one).pause = arm(one).pause_at_least = first_pause;
    if (load_ < from && one < before.strategy)
      arm(one).pause = std::max(first_pause, before.arms[std::size_t(one)].pause);
  }
}

bool SpeculationPolicy::open_to(Strategy strategy) const {
  return strategy != Strategy::overlap || options_.lookahead != Lookahead::none;
}

/// Returns tokens per second and sequence; 0 for a mode that was never timed.
double SpeculationPolicy::rate(Strategy strategy) const {
  const Arm& known = arm(strategy);
  if (known.seconds.weight == 0)
    return 0;
  const bool looks_up = strategy == Strategy::without_model && options_.lookup;
  return estimates_.tokens_of(known.expected.value, !looks_up) / known.seconds.value;
}

/// Returns what a token more adds to a round of `sync`: what rounds of other lengths have shown, or
/// else a pass and a row; 0: it is not known yet. Several sequences share a pass, which none of
/// them spares the others by ending.
double SpeculationPolicy::token_seconds() const {
  const double pass = estimates_.draft_seconds();
  const double plain = step_(sequences_);
  if (pass <= 0 || plain <= 0)
    return 0;
  const Arm& sync = arm(Strategy::sync);
  const int window = std::max(1, int(std::lround(sync.window.value)));
  const double row = std::max(0.0, (step_(sequences_ * (window + 1)) - plain) / window);
  if (sequences_ > 1)
    return row;
  return std::max(pass, sync.per_token.value(pass + row, slope_spread));
}

/// Returns the chance of a token that brings just what is decoded in the time that it takes, by the
/// best rate so far (Dinkelbach 1967, "On nonlinear fractional programming"); 0: it is not known
/// yet.
double SpeculationPolicy::least_chance() const {
  if (!options_.early_ends || options_.window || arm(load().strategy).seconds.weight < rounds_timed)
    return 0;
  return std::max(rate(Strategy::sync), rate(load().strategy)) * token_seconds();
}

EarlyEnd SpeculationPolicy::early_end() const {
  return {least_chance(), estimates_.odds()};
}

/// Returns the best window of a sequence that is like all others. drafting: plain steps, by the
/// window.
int SpeculationPolicy::best_window(double acceptance,
                                   const std::function<double(int)>& drafting) const {
  ShareTerms terms;
  terms.rows = terms.shortest = 1;
  terms.longest = std::min(options_.window_limit, WindowGains::tokens_max);
  terms.rows_max = terms.longest + 1;
  terms.drafting = drafting;
  terms.seconds = [this](int rows) { return v(rows - 1); };
  return share_windows({{WindowGains::synchronous(acceptance, terms.longest)}}, terms).windows[0];
}

/// Returns the tokens in the time of a plain step if the next window of K is drafted during a step.
/// A step finds its window all there, or waits for the best number of passes. v: of each window up
/// to K.
double SpeculationPolicy::overlapped_rate(double a, double c, std::span<const double> v) const {
  const int window = int(v.size()) - 1;
  const double hit = theory::chain_hit(a, window);
  const double tokens = theory::expected_tokens(a, window);
  const double ahead = options_.passes(window + 1) * c;
  double best = 0;
  for (int waited = 0; waited <= window; ++waited) {
    const double part_hits = theory::chain_hit(a, waited);
    const double there = part_hits / (1 - hit + part_hits); // share of steps that find it all there
    const auto seconds = [&](double alone, double hits, int left) {
      const double step = theory::shared_step(alone, ahead + options_.passes(left) * c, sharing_);
      // A miss that finds the draft at work waits for half a pass more.
      const double late = waited > 0 && ahead >= step ? c / 2 : 0;
      return hits * std::max(step, ahead) +
             (1 - hits) * (step + options_.passes(waited) * c + late);
    };
    const double rate = (there * tokens + (1 - there) * theory::expected_tokens(a, waited)) /
                        (there * seconds(v.back(), hit, 0) +
                         (1 - there) * seconds(v[std::size_t(waited)], part_hits, window - waited));
    best = std::max(best, rate);
  }
  return best;
}

/// Returns the window of `overlap`, of equally good ones the shortest, and decides whether anything
/// is drafted past it: not where a shared device makes waiting for windows the better choice.
int SpeculationPolicy::choose_overlapped(double a, double c) {
  struct {
    double rate = 0;
    int window = 0;
  } ahead, waiting;
  const int first = options_.window.value_or(1);
  const auto take = [](auto& best, double rate, int window) {
    if (rate > longer_lead * best.rate)
      best = {rate, window};
  };
  std::vector<double> v{1};
  for (int k = 1; k <= options_.window.value_or(options_.window_limit); ++k) {
    v.push_back(this->v(k));
    if (k < first)
      continue;
    take(ahead, overlapped_rate(a, c, v), k);
    take(waiting, theory::expected_tokens(a, k) / (options_.passes(k) * c + v.back()), k);
  }
  const bool forks = forks_ && present() == Strategy::overlap;
  const double best = std::max(ahead.rate, forks ? fork_rate_ : 0);
  ahead_pays_ = sharing_ == 0 || options_.lookahead != Lookahead::automatic || best >= waiting.rate;
  return ahead_pays_ ? ahead.window : waiting.window;
}

/// Chooses the window of each mode. What a look-up writes costs nothing.
void SpeculationPolicy::choose_windows() {
  const double a = estimates_.acceptance();
  const double c = cost_ratio() * estimates_.model_share();
  const auto choose = [this](Strategy strategy, auto best) {
    arm(strategy).choice = options_.window ? *options_.window : best();
  };
  choose(Strategy::sync, [&] {
    return least_chance() > 0 ? options_.window_limit
                              : best_window(a, [&](int k) { return options_.passes(k) * c; });
  });
  arm(Strategy::overlap).choice = choose_overlapped(a, c);
  if (options_.lookup)
    choose(Strategy::without_model, [&] { return best_window(estimates_.acceptance(false), {}); });
}

double SpeculationPolicy::hit(double acceptance, int window) const {
  if (!ahead_pays_)
    return 0;
  const double chain = theory::chain_hit(acceptance, window);
  const auto known = std::min(std::size_t(window), covered_.size() - 1);
  return chain + (forks_ ? covered_[known] * (1 - chain) : 0);
}

std::vector<double> SpeculationPolicy::hits(double acceptance, int window) const {
  std::vector<double> hits;
  for (int tokens = 0; tokens <= window; ++tokens)
    hits.push_back(hit(acceptance, tokens));
  return hits;
}

WindowGains SpeculationPolicy::gains(SpeculationMode mode, double acceptance) const {
  const int limit = std::min(options_.window_limit, WindowGains::tokens_max);
  if (mode != SpeculationMode::overlap || !drafts_ahead())
    return WindowGains::synchronous(acceptance, limit);
  return WindowGains::overlapped(acceptance, hits(acceptance, limit));
}

/// Times a round, unless it is the first one after a change of mode or after prefill, which is not
/// typical of its mode, or has rows of nothing but answers' forms. A stalled round counts only up
/// to a limit.
void SpeculationPolicy::time(const RoundObservation& round) {
  if (strategy_of(round) != last_strategy_ || (round.formed > 0 && round.window == 0))
    return;
  Arm& used = arm(strategy_of(round));
  const double seconds = unless_stalled(round.round_seconds, used.seconds.value);
  used.seconds.add(seconds, 1, round_memory);
  const double beside = step_(round.rows) - step_(round.rows - round.tree_rows);
  used.per_token.add(round.window, seconds - beside, slope_memory);
  used.window.add(estimates_.mean_window(round), 1, round_memory);
  used.expected.add(estimates_.expected_tokens(round), 1, round_memory);
}

void SpeculationPolicy::steer() {
  if (load().probe_rounds > 0) {
    if (--load().probe_rounds == 0)
      end_probe();
    return;
  }
  const double present = rate(load().strategy);
  for (const Strategy one : all_strategies)
    if (rate(one) > clear_lead * present && present > 0)
      return follow(one);
  for (const Strategy one : all_strategies)
    if (one != load().strategy && open_to(one) && --arm(one).pause <= 0)
      return begin_probe(one);
}

/// Returns a probe's rounds; the first is not timed. Plain rounds are all alike, others vary by
/// luck.
int SpeculationPolicy::probe_length(Strategy strategy) const {
  return strategy == Strategy::without_model && !options_.lookup ? 5 : 12;
}

void SpeculationPolicy::begin_probe(Strategy strategy) {
  load().probed = strategy;
  load().probe_rounds = probe_length(strategy);
  arm(strategy).seconds.limit(1);
  arm(strategy).window.limit(1);
  arm(strategy).expected.limit(1);
  if (load().strategy == Strategy::without_model)
    estimates_.doubt_acceptance();
}

void SpeculationPolicy::end_probe() {
  const Strategy probed = load().probed;
  if (rate(probed) > clear_lead * rate(load().strategy))
    return follow(probed);
  arm(probed).pause_at_least = std::min(2 * arm(probed).pause_at_least, longest_pause);
  arm(probed).pause = pause_before(probed);
}

/// Returns how many rounds to wait before a probe, so that the loss that it should bring, by what
/// is known, stays within the budget.
int SpeculationPolicy::pause_before(Strategy strategy) const {
  const Arm& probed = arm(strategy);
  const Arm& present = arm(load().strategy);
  const double found = rate(strategy);
  const double known = rate(load().strategy);
  if (found == 0 || known == 0)
    return probed.pause_at_least;
  const double loss = 1 - found / known;
  const double rounds = probe_length(strategy) * probed.seconds.value / present.seconds.value;
  const double pause = std::min(loss * rounds / probe_budget, double(longest_costly_pause));
  return std::max(probed.pause_at_least, int(pause));
}

/// Changes the mode. What is known of the mode that was left, and of those that lost to it, is
/// kept.
void SpeculationPolicy::follow(Strategy strategy) {
  load().strategy = strategy;
  for (const Strategy other : all_strategies) {
    arm(other).pause_at_least = first_pause;
    arm(other).pause = pause_before(other);
  }
}

} // namespace paceline::speculation
