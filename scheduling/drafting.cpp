#include "scheduling/drafting.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace paceline::scheduling {

using speculation::FadingMean;
using speculation::Plan;

namespace {

double shrunk(FadingMean own, double engines) {
  own.add(engines, limits::acceptance_prior, limits::acceptance_memory);
  return own.value;
}

/// One that drafts nothing for a while is like the others again.
void learn_of(FadingMean& acceptance, int judged, int accepted) {
  if (judged > 0)
    acceptance.add(double(accepted) / judged, judged, limits::acceptance_memory);
  else
    acceptance.limit(acceptance.weight * limits::acceptance_fades);
}

speculation::PolicyOptions policy_of(const SchedulerConfig& config) {
  speculation::PolicyOptions options = config.policy;
  options.row_cost = config.step_prior.row_cost(options.window_limit + 1);
  return options;
}

} // namespace

Drafting::Drafting(const SchedulerConfig& config, Sequences& sequences, EpochMint& epochs,
                   const StepCost& cost)
    : config_(config), sequences_(sequences), epochs_(epochs), cost_(cost),
      policy_(policy_of(config)), enabled_(config.has_draft), watch_(config.faults.stall_patience) {
}

// ---- what is drafted ----

bool Drafting::speculates(const Sequence& s, base::TimePoint now) const {
  return enabled_ && draft_ != 0 && back_off_.drafts(now) && s.spec->max_tokens > 0 && !pauses(s) &&
         plan_for(s).mode != SpeculationMode::off;
}

/// A look-up drafts for it beside the model, or alone.
bool Drafting::looks_up(const Sequence& s) const {
  return config_.policy.lookup && s.spec->lookup_drafts;
}

Plan Drafting::plan_for(const Sequence& s) const {
  Plan plan = policy_.plan();
  if (s.spec->speculation != SpeculationMode::automatic) {
    plan.mode = s.spec->speculation;
    plan.model = true;
  }
  plan.model &= s.spec->model_drafts && (s.throttle.speculate() || !looks_up(s));
  if (plan.mode == SpeculationMode::off || (!plan.model && !looks_up(s)))
    return {};
  if (!plan.model)
    plan.window = policy_.lookup_window();
  plan.window = std::max(plan.window, 1);
  if (s.spec->window > 0)
    plan.window = s.spec->window;
  else if (s.share)
    plan.window = s.share->window;
  if (s.share && !s.share->ahead)
    plan.mode = SpeculationMode::sync;
  const bool ahead =
      plan.mode == SpeculationMode::overlap && config_.policy.lookahead != Lookahead::none;
  plan.lookahead = ahead ? windows_ahead(plan.window) * (plan.window + 1) : 0;
  if (!ahead || !plan.model)
    plan.fork_rows = 0;
  return plan;
}

/// Of one sequence behind its window. Where a target has more stages than there are sequences to
/// keep them at work, windows of one sequence are in flight in several.
int Drafting::windows_ahead(int window) const {
  if (config_.stages == 1)
    return 1;
  const auto running =
      std::ranges::count_if(sequences_, [](const auto& entry) { return entry.second.running(); });
  const int held = speculation::limits::chain_positions / (window + 1) - 3;
  return std::max(1, std::min(config_.stages / std::max(1, int(running)), held));
}

double Drafting::acceptance(const Sequence& s) const {
  return shrunk(s.acceptance, policy_.acceptance());
}

/// The model's token is the likelier one by its acceptance, and costs a pass.
Drafters Drafting::drafters(const Sequence& s, const Plan& plan) const {
  if (!looks_up(s))
    return {};
  const double model = shrunk(s.model_acceptance, policy_.model_acceptance());
  return {plan.model, true, plan.model ? model - policy_.cost_ratio() : 0};
}

/// A pass of the draft. rows: of the target's step, to whose time the prior is a ratio.
double Drafting::draft_seconds(int rows) const {
  const double measured = policy_.draft_seconds();
  const auto step = cost_.predict(rows, 0);
  return measured > 0 || !step ? measured : policy_.cost_ratio() * base::seconds(*step);
}

/// rows: without windows. waits: for windows, in `overlap`, too.
speculation::ShareTerms Drafting::share_terms(int rows, double context, bool waits) const {
  const Plan plan = policy_.plan();
  const bool hidden = !waits && plan.mode == SpeculationMode::overlap &&
                      config_.policy.lookahead != Lookahead::none;
  const base::Duration longest = config_.longest_step();
  speculation::ShareTerms terms;
  terms.rows = rows;
  terms.longest = config_.policy.window_limit;
  terms.rows_max = rows * (terms.longest + 1);
  if (config_.row_budget > 0)
    terms.rows_max = config_.row_budget;
  else if (longest.count() > 0)
    terms.rows_max = cost_.rows_within(longest, context, terms.rows_max);
  terms.shortest = config_.policy.mode == SpeculationMode::automatic ? 0 : 1;
  terms.scouts = plan.probes ? (rows + limits::scouts_one_in - 1) / limits::scouts_one_in : 0;
  terms.drafting = hidden ? 0 : draft_seconds(rows);
  terms.seconds = [this, context](int of) {
    return base::seconds(*cost_.predict_boldly(of, context));
  };
  return terms;
}

speculation::WindowShares Drafting::shares_of(std::span<Sequence* const> sharing, int rows,
                                              double context, bool waits) const {
  std::vector<speculation::WindowGains> gains;
  for (const Sequence* s : sharing) {
    const SpeculationMode mode = waits ? SpeculationMode::sync : plan_for(*s).mode;
    gains.push_back(!pauses(*s) ? policy_.gains(mode, acceptance(*s)) : speculation::WindowGains());
  }
  return speculation::share_windows(gains, share_terms(rows, context, waits));
}

void Drafting::share_windows(std::span<Sequence* const> decoding, int prompt_rows) {
  int rows = int(decoding.size()) + prompt_rows;
  for (Sequence* s : decoding)
    s->share.reset();
  if (rows < 2 || config_.policy.window || !enabled_)
    return;
  double context = 0;
  std::vector<Sequence*> sharing;
  for (Sequence* s : decoding) {
    context += s->length();
    rows += s->spec->window;
    if (plan_for(*s).mode != SpeculationMode::off && s->spec->window == 0)
      sharing.push_back(s);
  }
  // What rows cost is weighed against a plain step, of which one is made where there was none.
  const bool known = prompt_rows > 0 ? cost_.predict(rows, context).has_value() : cost_.knows(rows);
  speculation::WindowShares shares{std::vector<int>(sharing.size()), 0};
  if (known)
    shares = shares_of(sharing, rows, context, false);
  bool waits = known && policy_.plan().mode == SpeculationMode::overlap &&
               config_.policy.lookahead == Lookahead::automatic;
  if (waits) {
    auto waited = shares_of(sharing, rows, context, true);
    waits = waited.rate > shares.rate;
    if (waits)
      shares = std::move(waited);
  }
  for (std::size_t i = 0; i < sharing.size(); ++i)
    sharing[i]->share = {shares.windows[i], !waits};
}

Forking Drafting::share_of_forks(std::size_t sequences) const {
  const int rows = policy_.plan().fork_rows;
  const auto lacks_pages = [](const auto& entry) { return entry.second.lacks_pages.has_value(); };
  if (rows == 0 || sequences == 0 || std::ranges::any_of(sequences_, lacks_pages))
    return {};
  return {std::min(rows / int(sequences), config_.policy.fork_rows), 0, policy_.odds()};
}

NextDraft Drafting::plan_next(const Sequence& s, int length, const Forking& forking,
                              base::TimePoint now) {
  const int budget = s.spec->prompt_tokens + s.spec->max_tokens - length;
  const Plan plan = plan_for(s);
  NextDraft next;
  next.window = std::min(plan.window, budget - 2);
  if (!speculates(s, now) || next.window <= 0)
    return {};
  next.lookahead = plan.lookahead;
  next.drafters = drafters(s, plan);
  next.epoch = epochs_.next();
  next.chain = std::make_shared<Chain>(s.spec->id);
  if (plan.fork_rows > 0) {
    next.forking = forking;
    next.forking.beyond = plan.lookahead - (plan.window + 1);
    next.forking.window = next.forking.beyond > 0 ? plan.lookahead : plan.window;
  }
  next.forking.learns = plan.learns_guesses;
  next.reads_features = config_.draft_reads_features;
  next.pages = pages_of(s);
  next.residency = s.residency;
  return next;
}

gpu::PageTableRef Drafting::pages_of(const Sequence& s) const {
  return config_.draft_pool ? s.pages[*config_.draft_pool] : nullptr;
}

speculation::Frontier Drafting::reading(const Sequence& s) {
  speculation::TargetFeatures features;
  if (config_.draft_reads_features)
    features = {s.pages[target_pool], s.cached};
  const auto chain = std::make_shared<Chain>(s.spec->id);
  chain->begin(s.length(), s.length(), s.length());
  return {.spec = s.spec,
          .epoch = epochs_.next(),
          .log = s.log,
          .log_length = s.length(),
          .tokens = {},
          .chain = chain,
          .pages = pages_of(s),
          .residency = s.residency,
          .forking = {},
          .features = std::move(features),
          .drafters = drafters(s, plan_for(s))};
}

// ---- waiting for windows ----

/// Its window is not all there, and may yet be.
bool Drafting::is_late(const Sequence& s, base::TimePoint now) const {
  return s.running() && s.chain && s.window > 0 && !s.in_flight && back_off_.waits(now) &&
         !s.chain->closed() && !s.late && !s.window_settled();
}

/// Whoever asked for this has its tokens repeat, whatever the rule.
bool Drafting::repeats(const Sequence& s) const {
  const bool fixed = s.spec->window > 0 || config_.policy.window.has_value();
  return fixed && plan_for(s).mode == SpeculationMode::sync;
}

/// Tokens have to repeat, or the mode was chosen at that price.
bool Drafting::waits_for_all(const Sequence& s) const {
  return repeats(s) || (plan_for(s).mode == SpeculationMode::sync && s.bound() < s.window);
}

speculation::OverlappedSequence Drafting::overlapped(const Sequence& s) const {
  const double a = acceptance(s);
  return {a, s.window, s.window > 0 ? policy_.hit(a, s.window) : a};
}

Drafting::StepNow Drafting::step_now() const {
  StepNow now;
  for (const auto& [id, s] : sequences_) {
    if (!s.running() || !s.may_step() || s.held_up())
      continue;
    const int fed = std::min(s.length() - s.fed(), config_.prefill_chunk);
    ++now.sequences;
    now.context += s.fed();
    now.rows += fed + s.bound();
    now.tokens += fed - 1 + overlapped(s).rate();
  }
  return now;
}

/// All that are late gain a token with each pass, and everybody waits for it: that is worth what
/// they gain less what all bring in that time. Who goes without its window now drafts the next one
/// under the step.
int Drafting::passes_worth_waiting(std::span<const Sequence* const> late) const {
  const StepNow now = step_now();
  int missing = 0;
  std::vector<speculation::OverlappedSequence> gaining;
  for (const Sequence* s : late) {
    missing = std::max(missing, s->window - s->bound());
    gaining.push_back(overlapped(*s));
  }
  const auto step = cost_.predict_boldly(now.rows, now.context);
  if (now.sequences == 1 || !step || step->count() == 0)
    return policy_.worth_waiting(late[0]->bound(), late[0]->window) ? missing : 0;
  const double per_second = now.tokens / base::seconds(*step);
  const double pass = draft_seconds(now.rows);
  double best = 0;
  int passes = 0;
  for (int more = 0, waited = 1; waited <= missing; ++waited) {
    double gain = 0;
    for (std::size_t i = 0; i < late.size(); ++i) {
      const int bound = late[i]->bound();
      gain += gaining[i].value(std::min(bound + waited, late[i]->window)) - gaining[i].value(bound);
      more += bound + waited <= late[i]->window;
    }
    const double longer =
        base::seconds(*cost_.predict_boldly(now.rows + more, now.context) - *step);
    if (const double worth = gain - per_second * (waited * pass + longer); worth > best) {
      best = worth;
      passes = waited;
    }
  }
  return passes;
}

bool Drafting::any_ready(base::TimePoint now) const {
  return std::ranges::any_of(sequences_, [&](const auto& entry) {
    const Sequence& s = entry.second;
    return s.running() && s.may_step() && !s.held_up() && !is_late(s, now);
  });
}

bool Drafting::wait_for_windows(Turn& turn) {
  AwaitWindows late;
  std::vector<const Sequence*> if_it_pays;
  for (const auto& [id, s] : sequences_) {
    if (!is_late(s, turn.now))
      continue;
    if (waits_for_all(s))
      late.windows.emplace_back(s.chain, s.length() + s.window);
    else if (s.bound() < s.window)
      if_it_pays.push_back(&s);
  }
  if (const int passes = if_it_pays.empty() ? 0 : passes_worth_waiting(if_it_pays))
    for (const Sequence* s : if_it_pays)
      late.windows.emplace_back(s->chain, s->length() + std::min(s->window, s->bound() + passes));
  if (late.windows.empty())
    return false;
  wait_ = Wait{++tickets_, turn.now};
  late.ticket = tickets_;
  turn.act(std::move(late));
  return true;
}

void Drafting::windows_ready(std::uint64_t ticket) {
  if (!wait_ || wait_->ticket != ticket)
    return;
  back_off_.on_time();
  stop_waiting();
}

std::optional<base::TimePoint> Drafting::wait_ends() const {
  return wait_ ? std::optional(wait_->since + timeout()) : std::nullopt;
}

void Drafting::end_late_wait(base::TimePoint now) {
  if (!wait_ || now < *wait_ends())
    return;
  back_off_.late(now);
  stop_waiting();
  for (auto& [id, s] : sequences_)
    if (s.chain && !s.in_flight && !s.window_settled())
      s.late = {now, s.chain->bound()};
}

void Drafting::was_late(Sequence& s, base::TimePoint now) {
  back_off_.late(now);
  s.late = {now, s.chain->bound()};
}

void Drafting::release(Sequence& s, base::TimePoint now) {
  if (s.late && now > s.late->since)
    back_off_.cost(s.late->since, now);
  s.late.reset();
}

bool Drafting::await_held_up(Turn& turn) {
  bool any = false;
  for (auto& [id, s] : sequences_) {
    if (!s.running() || s.in_flight || !s.held_up())
      continue;
    any = true;
    if (!std::exchange(s.late->awaited, true))
      turn.act(AwaitWindows{++tickets_, {{s.chain, s.late->until}}});
  }
  return any;
}

base::Duration Drafting::step() const {
  base::Duration longest = step_;
  for (const auto& [id, s] : sequences_)
    if (s.chain)
      longest = std::max<base::Duration>(longest, s.chain->pace().step);
  return longest;
}

base::Duration Drafting::timeout() const {
  const base::Duration step = this->step();
  if (step == step.zero())
    return limits::first_draft_timeout;
  int longest = 0;
  for (const auto& [id, s] : sequences_)
    longest = std::max(longest, s.window);
  return std::clamp<base::Duration>(step * (longest + limits::draft_timeout_steps),
                                    limits::draft_timeout_min, limits::draft_timeout_max);
}

// ---- what becomes of it ----

void Drafting::retire_chain(Sequence& s, const Chain* successor) {
  if (!s.chain)
    return;
  stop_waiting(); // nobody will finish it
  s.chain->close();
  if (const auto step = s.chain->pace().step; step > step.zero())
    step_ = step;
  s.stats.drafted += std::uint64_t(s.chain->drawn() - s.chain->start());
  const std::uint64_t forked = s.chain->drop_forks(std::numeric_limits<int>::max(), successor);
  s.stats.drafted += forked;
  s.stats.forked += forked;
  s.chain = nullptr;
  s.window = 0;
  s.late.reset();
}

bool Drafting::end_forks() {
  bool any = false;
  for (const auto& [id, s] : sequences_)
    any |= s.chain && s.chain->end_forks();
  return any;
}

void Drafting::retire_all_chains(base::TimePoint now) {
  for (auto& [id, s] : sequences_) {
    release(s, now);
    retire_chain(s);
  }
}

void Drafting::set_draft(std::uint64_t draft) {
  if (draft != draft_)
    watch_.begin_anew();
  draft_ = draft;
}

void Drafting::disable(Turn& turn) {
  enabled_ = false;
  turn.act(DisableDraft{}); // so that nobody uses it again
}

void Drafting::watch(Turn& turn) {
  bool owes = false;
  bool has_written = false;
  for (auto& [id, s] : sequences_) {
    const int read = s.residency ? s.residency->read.load(std::memory_order_relaxed) : 0;
    const int seen = read + (s.chain ? s.chain->drawn() - s.chain->start() : 0);
    has_written |= seen > s.drafted_seen; // a chain anew, or a residency, is no sign of life
    s.drafted_seen = seen;
    owes |= s.chain && (!s.window_settled() || s.held_up());
  }
  if (!watch_.stands_still(owes && draft_ != 0, has_written, step(), turn.now))
    return;
  base::add(config_.telemetry->stalls, 1);
  turn.act(EndDraft{});
}

void Drafting::learn(Sequence& s, const Verdict& verdict) {
  const int judged = verdict.judged - verdict.looked_up;
  const int accepted = verdict.accepted - verdict.looked_up_accepted;
  learn_of(s.acceptance, verdict.judged, verdict.accepted);
  learn_of(s.model_acceptance, judged, accepted);
  if (repeats(s))
    return; // what is drafted must not depend on what time it takes
  if (judged == 0) {
    s.throttle.observe_plain();
    return;
  }
  const int own = verdict.window * judged / verdict.judged;
  s.throttle.observe(own, accepted, policy_.window_cost(plan_for(s).mode, own, acceptance(s)));
}

void Drafting::observe(speculation::RoundObservation round) {
  if (round.window == 0 && round.mode != SpeculationMode::off)
    round.mode = SpeculationMode::off; // nothing was there to judge
  policy_.observe(round);
}

} // namespace paceline::scheduling
