#include "execution/forward_step.hpp"

#include "execution/alternatives.hpp"
#include "models/limits.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

namespace paceline::execution {

using scheduling::BatchEntry;

static_assert(models::limits::tentative_max >= speculation::limits::chain_positions);

namespace {

ForwardPass::Rows rows_of(const BatchEntry& entry) {
  ForwardPass::Rows rows;
  const auto committed = entry.log->first(entry.logged());
  for (int i = entry.logged(); i < entry.length; ++i)
    rows.prefix.push_back(entry.round.chain->token(i));
  const int from_prefix = std::max(entry.feed.cached, entry.logged()) - entry.logged();
  if (entry.feed.cached < entry.logged())
    rows.tokens.assign(committed.begin() + entry.feed.cached, committed.end());
  rows.tokens.insert(rows.tokens.end(), rows.prefix.begin() + from_prefix, rows.prefix.end());
  if (entry.round.chain && entry.round.window > 0) {
    rows.window = std::clamp(entry.round.chain->drawn() - entry.length, 0, entry.round.window);
    for (int i = 0; i < rows.window; ++i)
      rows.tokens.push_back(entry.round.chain->token(entry.length + i));
  }
  if (entry.feed.scores && entry.feed.cached < entry.spec->prompt_tokens)
    rows.logit_rows = int(rows.tokens.size());
  else if (entry.round.judges)
    rows.logit_rows = rows.window + 1;
  return rows;
}

/// Returns the rows of a fork, whose window is there.
ForwardPass::Rows rows_of(const Alternative& other) {
  ForwardPass::Rows rows;
  const BatchEntry& entry = other.entry;
  rows.tokens = {other.prefix.back()};
  for (int i = 0; i < entry.round.window; ++i)
    rows.tokens.push_back(entry.round.chain->token(entry.length + i));
  rows.prefix = other.prefix;
  rows.window = entry.round.window;
  rows.logit_rows = rows.window + 1;
  rows.copy = other.copy;
  return rows;
}

/// Lets the constraint work out the masks behind the window while the pass runs.
void expect_forms(const BatchEntry& entry, const ForwardPass::Rows& rows) {
  const auto& constraint = entry.spec->warping.constraint;
  if (!constraint || !entry.round.judges)
    return;
  constraint->expect(
      {entry.log->first(entry.logged()), std::size_t(entry.spec->prompt_tokens), rows.prefix},
      std::span(rows.tokens).last(std::size_t(rows.window)));
}

} // namespace

ForwardStep::ForwardStep(Stage stage, std::shared_ptr<ForwardPass> pass,
                         std::shared_ptr<base::Telemetry> telemetry)
    : stage_(std::move(stage)), pass_(std::move(pass)), telemetry_(std::move(telemetry)) {}

/// Follows the fate of the pass ahead. When the last lane gets here the verification ahead has
/// retired, so a pass that it did not let go on never will.
gpu::Step::Next ForwardStep::follow_ahead() {
  const bool closed = std::ranges::any_of(
      pass_->batch.entries, [](const BatchEntry& e) { return e.round.chain->closed(); });
  if (is_last() || (is_first() && closed))
    pass_->outcome->end();
  switch (pass_->outcome->fate()) {
  case PassOutcome::Fate::open: return is_first() && !windows_drawn() ? Next::waiting : Next::ready;
  case PassOutcome::Fate::ends: leave_nothing(); break;
  case PassOutcome::Fate::goes_on: leave_what_came_true(); break;
  }
  return Next::ready;
}

void ForwardStep::leave_nothing() {
  pass_->ahead = nullptr;
  pass_->batch.entries.clear();
  pass_->rows.clear();
}

/// Drops all entries that did not come true, and their rows among those that were handed on: then
/// it is a pass of one sequence.
void ForwardStep::leave_what_came_true() {
  const std::vector<std::size_t> live = pass_->outcome->came_true();
  if (live.size() == pass_->batch.entries.size())
    return;
  pass_->batch.keep([&live](std::size_t i) { return std::ranges::find(live, i) != live.end(); });
  if (pass_->rows.empty())
    return;
  const auto handed = [this](const ForwardPass::Rows& rows) {
    return pass_->handed_wanted ? rows.logit_rows : int(rows.tokens.size());
  };
  for (std::size_t i = 0; i < live.front(); ++i)
    pass_->handed_first += handed(pass_->rows[i]);
  pass_->rows = {std::move(pass_->rows[live.front()])};
  pass_->rows.front().first_logit_row = 0;
  pass_->handed_count = handed(pass_->rows.front());
}

/// True if all windows, and the tokens that they assume, are drawn.
bool ForwardStep::windows_drawn() const {
  return std::ranges::all_of(pass_->batch.entries, [](const BatchEntry& e) {
    return e.round.chain->drawn() >= e.length + e.round.window;
  });
}

bool ForwardStep::windows_settled() const {
  return std::all_of(pass_->batch.entries.begin(), pass_->batch.entries.end(),
                     [](const BatchEntry& e) {
                       return !e.round.chain || e.round.window == 0 ||
                              e.round.chain->settled(e.length + e.round.window);
                     });
}

gpu::Step::Next ForwardStep::prepare(base::TimePoint now) {
  if (ran_)
    return Next::done;
  const Next rows = prepare_rows(now);
  if (rows != Next::waiting)
    pass_->entered->store(stage_.number + 1, std::memory_order_release);
  if (rows != Next::ready)
    return rows;
  if (!follows_in_turn())
    throw std::runtime_error("a chunk of a prompt came before the one that it follows");
  plan();
  connect();
  ran_ = at_work_ = true;
  telemetry_->overlap.target_began(now);
  return Next::ready;
}

/// Whether the passes before are in front of this one in this stage, since messages may overtake
/// each other on their way. If the pass before failed, this one runs all the same, for its other
/// sequences: the scheduler drops its result for the failed one's.
bool ForwardStep::follows_in_turn() const {
  return std::ranges::all_of(pass_->follows, [this](const auto& before) {
    return before && before->load(std::memory_order_acquire) > stage_.number;
  });
}

/// Prepares the rows. The first stage reads the rows that all stages run.
gpu::Step::Next ForwardStep::prepare_rows(base::TimePoint now) {
  if (!is_first() && !pass_->retirement.completed)
    return Next::done;
  if (pass_->batch.after && follow_ahead() == Next::waiting)
    return Next::waiting;
  if (pass_->batch.entries.empty())
    return Next::done;
  if (!is_first())
    return Next::ready;
  if (!deadline_)
    deadline_ = now + pass_->batch.draft_timeout;
  if (!windows_settled() && now < *deadline_)
    return Next::waiting;
  return read_rows() ? Next::ready : Next::done;
}

/// Reads the rows. False: the pass ended meanwhile.
bool ForwardStep::read_rows() {
  for (const BatchEntry& entry : pass_->batch.entries)
    pass_->rows.push_back(rows_of(entry));
  if (!read_branches()) {
    leave_nothing();
    return false;
  }
  int logit_rows = 0;
  for (std::size_t i = 0; i < pass_->rows.size(); ++i) {
    ForwardPass::Rows& rows = pass_->rows[i];
    rows.first_logit_row = logit_rows;
    logit_rows += rows.logit_rows;
    pass_->read += int(rows.tokens.size());
    rows.paths = tree_paths(pass_->batch.entries[i], rows.window, *stage_.pool);
    for (TreePath& path : rows.paths) {
      path.first_logit_row = std::exchange(logit_rows, logit_rows + path.rows());
      pass_->read += path.rows();
    }
  }
  for (std::size_t i = 0; i < pass_->rows.size(); ++i)
    expect_forms(pass_->batch.entries[i], pass_->rows[i]);
  return true;
}

/// Reads the rows, with rows for other outcomes of the passes ahead.
bool ForwardStep::read_branches() {
  std::vector<BatchEntry>& entries = pass_->batch.entries;
  std::vector<double> chances(entries.size(), 1.0);
  std::vector<Branch> ahead;
  if (const auto before = std::exchange(pass_->ahead, nullptr)) {
    ahead = before->branches();
    std::erase_if(ahead, [&](const Branch& b) { return b.end() < entries.front().logged(); });
    const BatchEntry main = entries.front();
    for (Alternative& other : alternatives(main, pass_->rows.front().window, ahead, *stage_.pool)) {
      pass_->rows.push_back(rows_of(other));
      chances.push_back(other.chance);
      entries.push_back(std::move(other.entry));
    }
  }
  std::vector<Branch> branches;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (entries[i].round.chain)
      branches.push_back({entries[i].round.chain, entries[i].length, pass_->rows[i].window,
                          entries[i].feed.pages, entries[i].feed.own, chances[i]});
  return pass_->outcome->begin(std::move(branches), std::move(ahead));
}

void ForwardStep::plan() {
  std::vector<models::SequenceRows> batch;
  copies_.clear();
  work_ = {gpu::Work::Kind::decode, 0, int(pass_->batch.entries.size()), 0};
  work_.cache_width = stage_.model->cache_width();
  for (std::size_t i = 0; i < pass_->rows.size(); ++i) {
    const BatchEntry& entry = pass_->batch.entries[i];
    const ForwardPass::Rows& rows = pass_->rows[i];
    const int count = int(rows.tokens.size());
    batch.push_back({entry.feed.pages->ids, entry.feed.cached, rows.tokens, count - rows.logit_rows,
                     entry.feed.fast});
    if (const gpu::PageTable& table = *entry.feed.pages; table.state) {
      const auto number = [](const gpu::PageRef& state) {
        return state ? std::int32_t(state->id) : -1;
      };
      models::SequenceRows& all = batch.back();
      all.state = table.state->id;
      all.begin = number(table.begin.state);
      all.begin_at = table.begin.position;
      all.snapshot = number(table.snapshot.state);
      all.snapshot_at = table.snapshot.position;
      // A target of one stage has judged the passes ahead by now.
      const int certain = is_first() && is_last() ? entry.length : entry.logged();
      all.tentative = entry.feed.cached + count - certain;
    }
    if (rows.copy && stage_.has_pages()) // Else it would write to the first's.
      copies_.push_back(*rows.copy);
    work_.rows += count;
    work_.context = std::max(work_.context, entry.feed.cached + count);
    if (count > rows.window + 1 + entry.feed.again) {
      work_.kind = gpu::Work::Kind::prefill;
      work_.prompt_reads += std::int64_t(count) * (2 * entry.feed.cached + count + 1) / 2;
    } else {
      work_.decode_reads += entry.feed.cached + count;
    }
    for (int before = 1; const TreePath& path : rows.paths) {
      models::SequenceRows all{path.pages, path.position, path.tokens};
      all.shares_with = before++;
      all.shared_from = path.shared_from;
      batch.push_back(all);
      if (path.copy)
        copies_.push_back(*path.copy);
      work_.rows += path.rows();
      work_.decode_reads += path.position + path.rows();
    }
  }
  stage_.model->plan(batch, *stage_.pool, *stage_.workspace);
}

/// Connects the stage with its neighbours. The rows that stages hand over are those of the pass, in
/// their order, or only those whose logits are asked for.
void ForwardStep::connect() {
  if (!is_first()) {
    received_ = pass_->handed;
    stage_.workspace->received = pass_->handed_rows(received_.get());
  }
  if (!stage_.left)
    return;
  left_ = stage_.left->take();
  if (!left_)
    throw std::bad_alloc();
  pass_->handed_first = 0;
  pass_->handed_wanted = stage_.model->leaves_wanted();
  pass_->handed_count = pass_->handed_wanted ? wanted_rows() : work_.rows;
  pass_->handed_width = stage_.model->handed_on();
  stage_.workspace->left = pass_->handed_rows(left_.get());
  stage_.workspace->nearly_done = [this] { pass_->handovers[stage_.number].come(); };
}

int ForwardStep::wanted_rows() const {
  int rows = 0;
  for (const ForwardPass::Rows& entry : pass_->rows)
    rows += entry.logit_rows;
  return rows;
}

gpu::Work ForwardStep::work() const {
  return work_;
}

void ForwardStep::run(gpu::Operations& operations) {
  copy_pages(operations, *stage_.pool, copies_);
  stage_.model->forward(operations, *stage_.workspace);
}

void ForwardStep::complete(base::TimePoint now) {
  at_work_ = false;
  stage_.workspace->nearly_done = nullptr;
  telemetry_->overlap.target_ended(now);
}

void ForwardStep::retire(const gpu::Retirement& how) {
  if (std::exchange(at_work_, false))
    telemetry_->overlap.target_ended(how.end);
  pass_->ahead = nullptr; // It is still set if the lane was closed before the pass got here.
  pass_->went_through(how, is_first());
  pass_->handed = std::move(left_);
  received_ = nullptr;
  if (stage_.number < pass_->handovers.size())
    pass_->handovers[stage_.number].arrive();
}

} // namespace paceline::execution
