#include "scheduling/draft_planning.hpp"

#include "sampling/theory.hpp"
#include "scheduling/limits.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace paceline::scheduling {

using speculation::FadingMean;
using speculation::Plan;

namespace {

double shrunk(FadingMean own, double engines) {
  own.add(engines, limits::acceptance_prior, limits::acceptance_memory);
  return own.value;
}

/// Learns a sequence's acceptance. One that drafts nothing for a while is taken to be like the
/// others again.
void learn_of(FadingMean& acceptance, int judged, int accepted) {
  if (judged > 0)
    acceptance.add(double(accepted) / judged, judged, limits::acceptance_memory);
  else
    acceptance.limit(acceptance.weight * limits::acceptance_fades);
}

} // namespace

DraftPlanning::DraftPlanning(const SchedulerConfig& config, Sequences& sequences, EpochMint& epochs,
                             const StepCost& cost, const DraftHealth& health)
    : config_(config), sequences_(sequences), epochs_(epochs), cost_(cost), health_(health),
      policy_(
          config.policy, [this](int rows) { return step_seconds(rows, last_.context); },
          [this](int rows) {
            return base::seconds(
                cost_.predict_least(rows, last_.context).value_or(base::Duration{}));
          }) {}

double DraftPlanning::step_seconds(int rows, double context) const {
  const auto step = cost_.predict_boldly(rows, context);
  return step ? base::seconds(*step) : 0;
}

DraftState DraftPlanning::state(const Sequence& s, base::TimePoint now) const {
  const DraftState own = pauses(s) && !forms(s) ? DraftState::paused
                         : s.health.is_late()   ? DraftState::late
                                                : DraftState::healthy;
  return std::max(own, health_.state(now));
}

bool DraftPlanning::speculates(const Sequence& s, base::TimePoint now) const {
  return state(s, now) <= DraftState::late && s.spec->max_tokens > 0 &&
         plan_for(s).mode != SpeculationMode::off;
}

/// Returns the part of a window that a block has room for: nothing drafts what is behind.
int DraftPlanning::within_block(int window) const {
  return config_.policy.block > 0 ? std::min(window, config_.policy.block) : window;
}

/// Says whether a look-up drafts for the sequence, beside the model or alone.
bool DraftPlanning::looks_up(const Sequence& s) const {
  return config_.policy.lookup && s.spec->lookup_drafts;
}

bool DraftPlanning::forms(const Sequence& s) const {
  return config_.forms_draft && s.spec->form_drafts && s.spec->warping.constraint &&
         s.spec->speculation != SpeculationMode::off;
}

/// The form drafts where nobody else does, too, and leaves a fixed window as it is.
Plan DraftPlanning::plan_for(const Sequence& s) const {
  Plan plan = plan_of_drafters(s);
  if (!forms(s))
    return plan;
  const int longest = s.spec->window > 0
                          ? s.spec->window
                          : config_.policy.window.value_or(config_.policy.window_limit);
  if (plan.mode == SpeculationMode::off || plan.window < 1 || pauses(s)) {
    plan = {};
    plan.mode = SpeculationMode::sync;
    plan.window = longest;
    plan.form_alone = true;
  }
  plan.form_window = within_block(std::max(plan.window, longest));
  const int remembered = 3 * (plan.form_window + 1); // as in `windows_ahead`
  plan.lookahead = std::min(plan.lookahead, speculation::limits::chain_positions - remembered);
  return plan;
}

/// Returns the plan without what the form of the answer drafts.
Plan DraftPlanning::plan_of_drafters(const Sequence& s) const {
  if (config_.drafters.empty() && config_.forms_draft)
    return {};
  const bool chooses = s.spec->speculation == SpeculationMode::automatic;
  Plan plan = chooses ? policy_.plan() : policy_.plan(s.spec->speculation);
  if (!chooses) {
    plan.mode = s.spec->speculation;
    plan.model = true;
  }
  plan.model &= s.spec->model_drafts && (s.health.pays() || !looks_up(s));
  if (plan.mode == SpeculationMode::off || (!plan.model && !looks_up(s)))
    return {};
  if (!plan.model)
    plan.window = policy_.lookup_window();
  plan.window = std::max(plan.window, 1);
  if (s.spec->window > 0)
    plan.window = within_block(s.spec->window);
  else if (s.share)
    plan.window = s.share->window;
  if (s.share && !s.share->ahead)
    plan.mode = SpeculationMode::sync;
  const bool ahead = plan.mode == SpeculationMode::overlap && plan.lookahead > 0;
  plan.lookahead = ahead ? windows_ahead(plan.window) * (plan.window + 1) : 0;
  if (!ahead || !plan.model)
    plan.fork_rows = 0;
  const bool must_repeat = repeats(s, plan) && !config_.policy.tree_rows;
  if (plan.mode != SpeculationMode::sync || !plan.model || must_repeat)
    plan.tree_rows = 0;
  return plan;
}

/// Returns how many windows of one sequence are drafted behind the present one. Where a target has
/// more stages than sequences to keep them busy, windows of one sequence are in flight in several.
int DraftPlanning::windows_ahead(int window) const {
  if (config_.stages == 1)
    return 1;
  const auto running =
      std::ranges::count_if(sequences_, [](const auto& entry) { return entry.second.running(); });
  const int held = speculation::limits::chain_positions / (window + 1) - 3;
  return std::max(1, std::min(config_.stages / std::max(1, int(running)), held));
}

double DraftPlanning::acceptance(const Sequence& s) const {
  return shrunk(s.acceptance, policy_.acceptance());
}

/// Returns who drafts. The model's token is the likelier one by its acceptance, and costs a pass.
Drafters DraftPlanning::drafters(const Sequence& s, const Plan& plan) const {
  const bool looks_up = this->looks_up(s);
  if (!looks_up && plan.form_window == 0)
    return {};
  if (plan.form_alone)
    return {false, false, 0, plan.form_window};
  const double model = shrunk(s.model_acceptance, policy_.model_acceptance());
  const double chance = plan.model ? model - policy_.token_cost(plan.window) : 0;
  return {plan.model, looks_up, chance, plan.form_window};
}

/// Returns the time of a pass of the draft. rows: of the target's step, to whose time the prior is
/// a ratio.
double DraftPlanning::draft_seconds(int rows) const {
  const double measured = policy_.draft_seconds();
  const auto step = cost_.predict(rows, 0);
  return measured > 0 || !step ? measured : policy_.cost_ratio() * base::seconds(*step);
}

/// rows: those of the step without windows. waits: windows are waited for, in `overlap`, too.
speculation::ShareTerms DraftPlanning::share_terms(int rows, double context, bool waits) const {
  const Plan plan = policy_.plan();
  const bool hidden = !waits && plan.mode == SpeculationMode::overlap && policy_.drafts_ahead();
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
  const double pass = draft_seconds(rows);
  const double covered = hidden ? step_seconds(rows, context) : 0;
  const double sharing = cost_.sharing();
  // A lookahead has one token more, and begins half a pass late: the verdict before it finds the
  // draft in the middle of a pass.
  terms.drafting = [=, this](int window) {
    if (!hidden)
      return config_.policy.passes(window) * pass;
    const double passes = config_.policy.passes(window + 1);
    const double step = sampling::theory::shared_step(covered, passes * pass, sharing);
    return step - covered + std::max(0.0, (passes + 0.5) * pass - step);
  };
  terms.seconds = [this, context](int of) { return step_seconds(of, context); };
  return terms;
}

speculation::WindowShares DraftPlanning::shares_of(std::span<Sequence* const> sharing, int rows,
                                                   double context, bool waits) const {
  std::vector<speculation::WindowGains> gains;
  for (const Sequence* s : sharing) {
    const SpeculationMode mode = waits ? SpeculationMode::sync : plan_of_drafters(*s).mode;
    gains.push_back(!pauses(*s) ? policy_.gains(mode, acceptance(*s)) : speculation::WindowGains());
  }
  return speculation::share_windows(gains, share_terms(rows, context, waits));
}

void DraftPlanning::share_windows(std::span<Sequence* const> decoding, int prompt_rows) {
  int rows = int(decoding.size()) + prompt_rows;
  for (Sequence* s : decoding)
    s->share.reset();
  if (rows < 2 || config_.policy.window || health_.is_disabled())
    return;
  double context = 0;
  std::vector<Sequence*> sharing;
  for (Sequence* s : decoding) {
    context += s->length();
    rows += s->spec->window;
    const bool has_room = s->budget() > 2; // a window's token between two of the target's
    if (plan_of_drafters(*s).mode != SpeculationMode::off && s->spec->window == 0 && has_room)
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

Forking DraftPlanning::share_of_forks(std::size_t sequences) const {
  const int rows = policy_.plan().fork_rows;
  const auto lacks_pages = [](const auto& entry) { return entry.second.lacks_pages.has_value(); };
  if (rows == 0 || sequences == 0 || std::ranges::any_of(sequences_, lacks_pages))
    return {};
  return {std::min(rows / int(sequences), config_.policy.fork_rows), 0, policy_.odds()};
}

NextDraft DraftPlanning::plan_next(const Sequence& s, int length, const Forking& forking,
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
  if (plan.tree_rows > 0) {
    next.forking = {.rows = plan.tree_forks,
                    .window = plan.window,
                    .odds = policy_.odds(),
                    .beside = true,
                    .least = policy_.least_row()};
  }
  next.forking.learns = plan.learns_guesses || plan.tree_rows > 0;
  if (plan.model && plan.mode == SpeculationMode::sync && s.spec->window == 0)
    next.early_end = policy_.early_end();
  next.reads_features = config_.draft_reads_features;
  next.pages = pages_of(s);
  next.residency = s.residency;
  return next;
}

gpu::PageTableRef DraftPlanning::pages_of(const Sequence& s) const {
  return config_.draft_pool ? s.pages[*config_.draft_pool] : nullptr;
}

speculation::Frontier DraftPlanning::reading(const Sequence& s) {
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

bool DraftPlanning::repeats(const Sequence& s, const Plan& plan) const {
  const bool fixed = s.spec->window > 0 || config_.policy.window.has_value();
  return fixed && plan.mode == SpeculationMode::sync;
}

TreeRows DraftPlanning::tree_of(const Sequence& s, int most) const {
  const Plan plan = plan_for(s);
  if (plan.tree_rows == 0 || most <= 0)
    return {};
  return {std::min(plan.tree_rows, most), policy_.least_row(), policy_.odds()};
}

/// Returns what these rows cost a step like the last one, in tokens that plain decoding would have
/// brought: all sequences take longer for them.
double DraftPlanning::rows_cost(int rows) const {
  const int all = std::max(last_.rows, last_.sequences + rows);
  const auto seconds = [this](int of) {
    return base::seconds(cost_.predict(of, last_.context).value_or(base::Duration{}));
  };
  const double plain = seconds(last_.sequences);
  const double longer = seconds(all) - seconds(all - rows);
  return plain > 0 ? last_.sequences * std::max(0.0, longer) / plain : 0;
}

void DraftPlanning::learn(Sequence& s, const Verdict& verdict) {
  const int judged = verdict.drafters_judged() - verdict.looked_up;
  const int accepted = verdict.drafters_accepted() - verdict.looked_up_accepted;
  learn_of(s.acceptance, verdict.drafters_judged(), verdict.drafters_accepted());
  learn_of(s.model_acceptance, judged, accepted);
  if (repeats(s))
    return; // what is drafted must not depend on what time it takes
  if (judged == 0) {
    s.health.observe_plain();
    return;
  }
  const int own = verdict.drafters_window() * judged / verdict.drafters_judged();
  const int guessed = verdict.tree_tokens > 0 ? 1 : 0; // a token that no window would have brought
  s.health.observe(own, accepted + guessed,
                   rows_cost(own + verdict.tree_rows) +
                       policy_.drafting_cost(plan_for(s).mode, own, acceptance(s)));
}

void DraftPlanning::observe(const speculation::RoundObservation& round) {
  last_ = {round.sequences, round.rows, round.context};
  policy_.observe(round);
}

} // namespace paceline::scheduling
