#include "scheduling/batch_builder.hpp"

#include "scheduling/limits.hpp"
#include "scheduling/round.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace paceline::scheduling {

/// The rows of a step that are left for the sequences that come next.
struct BatchBuilder::Allowance {
  int prefill_rows = 0;
  int logit_rows = 0;
  int other_rows = 0; ///< Rows without logits: of prompts, and of tokens that are fed again.
  int tree_rows = 0;  ///< Rows beside each window.
  Forking forking;    ///< Each sequence's forks, but for the window.
  base::TimePoint now{};
};

BatchBuilder::BatchBuilder(const SchedulerConfig& config, Sequences& sequences, EpochMint& epochs,
                           Drafting& drafting, Residency& residency, const StepCost& cost,
                           const RequestMix& mix)
    : config_(config), sequences_(sequences), epochs_(epochs), drafting_(drafting),
      residency_(residency), cost_(cost), mix_(mix) {}

/// Says whether a sequence has to wait for its window, in a target of several stages, where that
/// holds up no other sequence.
bool BatchBuilder::waits_for_others(const Sequence& s, base::TimePoint now) const {
  return config_.stages > 1 && drafting_.waits.must_wait(s, now);
}

std::vector<Sequence*> BatchBuilder::order(base::TimePoint now) const {
  std::vector<Sequence*> order;
  int decoding = 0;
  for (auto& [id, s] : sequences_) {
    decoding += s.running() && s.decoding();
    if (s.running() && s.may_step() && !s.held_up() && !waits_for_others(s, now))
      order.push_back(&s);
  }
  std::ranges::sort(order, [](const Sequence* a, const Sequence* b) {
    return a->decoding() == b->decoding() ? QueueOrder::before(*a, *b) : a->decoding();
  });
  const auto reads = [](const Sequence* s) { return !s->decoding(); };
  if (config_.batching != Batching::hybrid && std::ranges::any_of(order, reads))
    std::erase_if(order, std::not_fn(reads)); // prompts first, and alone
  leave_share(order, decoding);
  return order;
}

/// Leaves one batch's share of the sequences that decode. A target of several stages has as many
/// batches under way, and equal shares keep all of a size (Agrawal et al. 2023, "SARATHI", section
/// 4.2). decoding: how many decode in all.
void BatchBuilder::leave_share(std::vector<Sequence*>& order, int decoding) const {
  int left = (decoding + config_.stages - 1) / config_.stages;
  std::erase_if(order, [&left](const Sequence* s) { return s->decoding() && left-- <= 0; });
}

/// Returns the rows of a step for streams that have none in this one and go on behind it: their
/// drafts hold them up, or they are in other stages, each of which has its share of them.
int BatchBuilder::rows_of_others() const {
  if (config_.batching != Batching::hybrid)
    return 0; // prompts are to go first
  int rows = 0;
  for (const auto& [id, s] : sequences_)
    if (s.running() && s.decoding())
      rows += 1 + s.bound();
  return (rows + config_.stages - 1) / config_.stages;
}

/// Returns the rows of prompts that a step for all of these may have.
int BatchBuilder::prompt_rows(std::span<Sequence* const> order) const {
  int decoding = 0;
  double context = 0;
  int least = limits::row_tile;
  for (const Sequence* s : order) {
    context += s->fed();
    if (s->decoding())
      decoding += 1 + s->bound();
    else if (s->reads_fast())
      least = std::max(least, s->path.chunk);
  }
  if (std::ranges::all_of(order, &Sequence::decoding))
    return 0; // nobody reads a prompt
  const int streams = decoding > 0 ? decoding : rows_of_others();
  if (streams == 0)
    return config_.prefill_chunk;
  const int rows =
      rows_beside(order, streams, context, least) / limits::row_tile * limits::row_tile - decoding;
  return std::min(std::max(rows, least), config_.prefill_chunk);
}

/// Returns the rows that each of these, none of which reads a prompt, may have beside its window:
/// its share of what windows leave of the logits, and of a bound for the step's rows or time.
int BatchBuilder::tree_rows(std::span<Sequence* const> order) const {
  int rows = 0;
  double context = 0;
  for (const Sequence* s : order) {
    rows += 1 + s->bound();
    context += s->fed();
  }
  int most = config_.logit_rows;
  if (const base::Duration longest = config_.longest_step(); config_.row_budget > 0)
    most = std::min(most, config_.row_budget);
  else if (longest.count() > 0)
    most = cost_.rows_within(longest, context, most);
  return std::max(0, most - rows) / std::max(int(order.size()), 1);
}

/// Returns the average work to expect of the requests that are open.
RequestWork BatchBuilder::open_work() const {
  const double requests(sequences_.count());
  const Sequences::Asked& asked = sequences_.asked();
  return mix_.expected(
      {double(asked.prompt_tokens) / requests, double(asked.max_tokens) / requests});
}

/// Returns all rows of a step that has so many rows of streams. Without an objective these are as
/// many as serve most requests where some wait for a place, since whoever waits gains most from
/// whoever ends. Else they are as many as make the step better, and no more than lengthen a step of
/// the streams alone by `limits::prompts_lengthen`. Before such a step was seen one that comes
/// close to it is made, since a step of prompts alone says nothing of it.
/// least: the fewest rows of prompts in a step.
int BatchBuilder::rows_beside(std::span<Sequence* const> order, int decoding, double context,
                              int least) const {
  if (config_.row_budget > 0)
    return config_.row_budget;
  const int most = config_.prefill_chunk + decoding;
  if (const base::Duration longest = config_.longest_step(); longest.count() > 0)
    return cost_.rows_within(longest, context, most);
  if (const int fewest = decoding + least; !cost_.knows(fewest))
    return fewest;
  if (sequences_.any_waits()) {
    const auto streams = std::ranges::count_if(order, &Sequence::decoding);
    const StepShares shares{int(order.size()),
                            double(decoding) / double(std::max<long>(streams, 1)), context};
    return best_step_rows(cost_, open_work(), shares, most);
  }
  const int rows = cost_.knee(context, most);
  const auto alone = cost_.predict(decoding, context);
  if (!alone)
    return rows;
  const double longest = limits::prompts_lengthen * base::seconds(*alone);
  return cost_.rows_within(base::from_seconds(longest), context, rows);
}

/// Shares windows for the step behind the one that reads so many rows of prompts. What is left of
/// the prompts is likely to be in that step, too.
void BatchBuilder::share_windows(std::span<Sequence* const> order, int prompt_rows) {
  std::vector<Sequence*> decoding;
  int left = prompt_rows;
  int waiting = 0;
  for (Sequence* s : order) {
    const int missing = s->length() - s->fed();
    const int fed = s->decoding() ? missing : std::min(missing, left);
    left -= s->decoding() ? 0 : fed;
    waiting += missing - fed;
    if (fed == missing)
      decoding.push_back(s);
  }
  drafting_.planning.share_windows(decoding, std::min(waiting, prompt_rows));
}

InFlightBatch BatchBuilder::build(Turn& turn, std::uint64_t id) {
  InFlightBatch made;
  made.batch.id = id;
  made.mode = drafting_.planning.policy().plan().mode;
  const std::vector<Sequence*> order = this->order(turn.now);
  made.model = std::ranges::any_of(
      order, [this](const Sequence* s) { return drafting_.planning.plan_for(*s).model; });
  const int prompts = prompt_rows(order);
  Allowance left{prompts, config_.logit_rows, config_.prefill_chunk,
                 prompts > 0 ? 0 : tree_rows(order),
                 drafting_.planning.share_of_forks(order.size())};
  share_windows(order, left.prefill_rows);
  for (Sequence* s : order) {
    auto entry = entry_for(turn, *s, left);
    if (!entry)
      continue;
    made.prefill |= !s->decoding();
    s->in_flight = true;
    s->epoch = entry->epoch;
    if (config_.stages > 1 && !entry->round.judges)
      s->chunks.push_back({entry->epoch, id, entry->length});
    if (entry->round.chain || entry->next.chain)
      made.mode = drafting_.planning.plan_for(*s).mode;
    made.rows += entry->length - entry->feed.cached;
    made.batch.entries.push_back(std::move(*entry));
  }
  return made;
}

/// Returns how many committed tokens can be fed now; 0: none can.
int BatchBuilder::rows_to_feed(const Sequence& s, const Allowance& left) const {
  const int missing = s.length() - s.fed();
  if (s.decoding() && missing - 1 > left.other_rows)
    return 0;
  int count =
      std::min({missing, s.decoding() ? missing : left.prefill_rows,
                s.decoding() ? missing : left.other_rows, s.target_pages().capacity() - s.fed()});
  if (s.reads_fast())
    count = std::min(count, s.path.fast - s.fed()) / s.path.chunk * s.path.chunk;
  if (s.scores())
    count = std::min(count, left.logit_rows);
  return left.logit_rows < 1 ? 0 : std::max(count, 0);
}

std::optional<BatchEntry> BatchBuilder::entry_for(Turn& turn, Sequence& s, Allowance& left) {
  const int count = rows_to_feed(s, left);
  if (count == 0) {
    if (s.target_pages().capacity() < s.fed() + s.rows_at_least())
      residency_.ensure_pages(turn, s);
    return std::nullopt;
  }
  drafting_.waits.release(s, turn.now); // released before it is planned what is drafted next
  BatchEntry entry;
  entry.spec = s.spec;
  entry.epoch = epochs_.next();
  entry.log = s.log;
  entry.length = s.fed() + count;
  entry.feed = {s.fed(), s.pages[target_pool], s.reads_fast(), s.scores(),
                s.chunks.empty() ? 0 : s.chunks.back().batch};
  entry.round.judges = entry.length == s.length() && s.spec->max_tokens > 0;
  if (!s.decoding())
    left.prefill_rows -= count;
  else
    entry.feed.again = count - 1;
  left.other_rows -= s.decoding() ? entry.feed.again : count;
  left.logit_rows -= entry.feed.scores ? count : int(entry.round.judges);
  if (entry.round.judges) {
    entry.round = round_of(s, left.logit_rows);
    left.logit_rows -= entry.round.window;
    if (entry.round.window > 0)
      entry.round.tree = drafting_.planning.tree_of(s, std::min(left.logit_rows, left.tree_rows));
    left.logit_rows -= entry.round.tree.rows;
    entry.next = drafting_.planning.plan_next(s, entry.length, left.forking, turn.now);
  }
  return entry;
}

/// Judges whatever is bound, in every mode: what was drawn under another plan may not be dropped
/// for a new plan, which may have come from how long the drawing took. The verdict adds a token of
/// its own, and every token fed needs a slot.
Round BatchBuilder::round_of(const Sequence& s, int logit_rows) const {
  Round round;
  const int length = s.length();
  round.chain = s.chain;
  round.window = std::max(
      0, std::min({s.bound(), s.budget() - 1, logit_rows, s.target_pages().capacity() - length,
                   config_.max_model_len - length - 1}));
  round.whole = round.window >= s.window;
  round.judge_lookahead = s.chain && round.window < s.budget() - 1;
  return round;
}

// ---- the batch behind one in flight ----

std::optional<InFlightBatch> BatchBuilder::build_behind(const InFlightBatch& before,
                                                        base::TimePoint now) {
  const bool in_stages = config_.stages > 1; // a part of it could not run without the rest
  if (others_want_rows() || (in_stages && before.batch.entries.size() > 1))
    return std::nullopt;
  InFlightBatch made;
  made.model = before.model;
  Allowance left{
      0,  config_.logit_rows, 0, 0, drafting_.planning.share_of_forks(before.batch.entries.size()),
      now};
  double chance = 1;
  for (const BatchEntry& entry : before.batch.entries) {
    chance *= std::pow(drafting_.planning.policy().acceptance(), entry.round.window + 1);
    auto behind =
        chance < limits::pre_enqueue_chance_min ? std::nullopt : entry_behind(entry, left);
    if (!behind)
      return std::nullopt;
    made.batch.entries.push_back(std::move(*behind));
  }
  made.batch.after = before.batch.id;
  made.rows = int(made.batch.entries.size());
  made.mode = before.mode;
  return made;
}

/// Says whether some sequence has, or is about to have, something to do in the next step.
bool BatchBuilder::others_want_rows() const {
  return std::ranges::any_of(sequences_, [](const auto& entry) {
    const Sequence& s = entry.second;
    return s.may_step() && !s.held_up() && s.phase != Sequence::Phase::waiting;
  });
}

/// Returns no entry where a full hit is not possible, or would leave no room for a whole window.
std::optional<BatchEntry> BatchBuilder::entry_behind(const BatchEntry& before, Allowance& left) {
  const Sequence* const found = sequences_.find(before.spec->id);
  if (!found)
    return std::nullopt;
  const Sequence& s = *found;
  const int ahead = before.length - s.length(); // tokens that batches in flight are to commit
  const bool follows = ahead == 0 ? s.epoch == before.epoch : ahead > 0 && s.in_flight;
  if (!follows || !s.chain || s.chain != before.round.chain || !before.round.whole ||
      !before.round.judge_lookahead || before.next.lookahead == 0)
    return std::nullopt;
  BatchEntry entry;
  entry.spec = s.spec;
  entry.epoch = epochs_.next();
  entry.log = s.log;
  entry.assumed = ahead + before.round.window + 1;
  entry.length = s.length() + entry.assumed;
  entry.feed.cached = before.feed.own.value_or(entry.length - 1);
  entry.feed.again = entry.length - 1 - entry.feed.cached;
  entry.feed.pages = s.pages[target_pool];
  entry.round.chain = s.chain;
  entry.round.window = before.next.window;
  entry.round.whole = true;
  const int budget = s.spec->prompt_tokens + s.spec->max_tokens - entry.length;
  entry.round.judge_lookahead = entry.round.window < budget - 1;
  entry.next = drafting_.planning.plan_next(s, entry.length, left.forking, left.now);
  left.logit_rows -= entry.round.window + 1;
  if (left.logit_rows < 0 || !has_pages_behind(s, entry) || !entry.next.chain ||
      !entry.round.judge_lookahead)
    return std::nullopt;
  entry.forks = for_forks(entry, left.logit_rows);
  return entry;
}

/// Allows as many rows for forks as lengthen the step by no more than they are likely to be worth:
/// what is behind a rejection has most of a pass before it, and rows that hold its outcome save a
/// part of that.
ForForks BatchBuilder::for_forks(const BatchEntry& entry, int logit_rows) const {
  if (config_.stages == 1 || entry.next.forking.rows == 0)
    return {};
  const int own = entry.feed.again + 1 + entry.round.window;
  const double rejected =
      1 - std::pow(drafting_.planning.policy().acceptance(), entry.round.window + 1);
  const auto alone = cost_.predict_boldly(own, entry.length);
  const auto within = [&](int rows) {
    return base::seconds(*cost_.predict_boldly(own + rows, entry.length)) <=
           base::seconds(*alone) * (1 + limits::forks_lengthen * rejected);
  };
  const int most = std::min(logit_rows, limits::fork_rows_max);
  int rows = 0;
  while (rows < most && (!alone || within(rows + 1)))
    ++rows;
  return {rows, std::min(limits::fed_again_max, config_.prefill_chunk)};
}

/// Says whether there are pages for the entry's rows, and for what is drafted after another hit.
bool BatchBuilder::has_pages_behind(const Sequence& s, const BatchEntry& entry) const {
  const int end = entry.length + entry.round.window;
  const int room = s.room(config_.max_model_len);
  const int drafted = end + 1 + entry.next.window + entry.next.lookahead;
  const gpu::PageTableRef draft_pages = drafting_.planning.pages_of(s);
  return end < room && end <= s.target_pages().capacity() &&
         (!draft_pages || // a caller's drafter has none
          std::min(drafted, room) <= draft_pages->capacity());
}

} // namespace paceline::scheduling
