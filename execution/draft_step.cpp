#include "execution/draft_step.hpp"

#include "base/expect.hpp"
#include "execution/limits.hpp"
#include "execution/stage.hpp"
#include "sampling/limits.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <utility>

namespace paceline::execution {

using speculation::DraftPass;
using speculation::DraftRows;
using speculation::Frontier;

namespace {

bool lacks_q(const DraftRows& rows, const speculation::QRow& q) {
  return rows.sequence->at.spec->needs_q() && !q;
}

/// Returns the draft's column of logits for each of the target's ids; empty: they are the same.
const std::vector<TokenId>& says_of(const DraftStep::Parts& parts) {
  return parts.map ? parts.map->says() : parts.says;
}

/// Returns the rows of the longest pass: prompts that are caught up on, and a window for each
/// sequence, with a block behind it.
int rows_max(const DraftStep::Parts& parts) {
  const int block = parts.model->block_tokens();
  return speculation::limits::draft_prefill_chunk +
         parts.max_num_seqs * (sampling::limits::window_max + 1 + (block > 0 ? block + 1 : 0)) +
         parts.fork_rows;
}

/// Returns how many tokens a pass may draw: one for each sequence and fork, or blocks of them, of
/// as many sequences as there is memory for rows of logits.
int drawn_max(const DraftStep::Parts& parts) {
  const int block = parts.model->block_tokens();
  const std::size_t row = sizeof(float) * std::size_t(parts.model->vocabulary());
  const int rows = int(std::min<std::size_t>(limits::block_logits_bytes / row, 1 << 20));
  return parts.fork_rows +
         std::clamp(rows, parts.max_num_seqs, parts.max_num_seqs * std::max(1, block));
}

} // namespace

DraftStep::DraftStep(Parts parts, std::shared_ptr<DraftQueue> queue)
    : parts_(std::move(parts)),
      drawable_(says_of(parts_).empty() ? std::min(parts_.vocabulary, parts_.model->vocabulary())
                                        : parts_.vocabulary),
      drawn_max_(drawn_max(parts_)), queue_(std::move(queue)),
      workspace_(base::value_or_throw(parts_.model->make_workspace(rows_max(parts_), drawn_max_))),
      rows_(std::make_shared<RowPool>(
          RowPool::Config{parts_.device, parts_.reader, parts_.vocabulary, parts_.q_rows})),
      planner_({parts_.model->info().max_model_len, parts_.fork_rows, parts_.model->block_tokens(),
                drawn_max_},
               parts_.pool, parts_.map) {
  if (!says_of(parts_).empty())
    map_columns();
  if (parts_.lookup_device)
    lookup_.emplace(
        LaneDrafter::Parts{parts_.lookup, parts_.lookup_device, parts_.vocabulary, parts_.telemetry,
                           parts_.lookup ? parts_.q_rows : speculation::limits::form_q_rows,
                           parts_.reader ? parts_.reader : parts_.device});
}

/// Returns the device that has the logits, and draws from them.
gpu::Device& DraftStep::drawing_device() const {
  const int shard = parts_.model->logits_shard();
  return is_divided() ? *parts_.device->shards()[std::size_t(shard)] : *parts_.device;
}

/// Makes the map of columns. The target's ids that the draft cannot say get no column, so they have
/// no mass before a row is normalised.
void DraftStep::map_columns() {
  std::vector<float> columns(std::size_t(drawable_), -1.0f);
  const std::vector<TokenId>& says = says_of(parts_);
  for (std::size_t id = 0; id < std::min(columns.size(), says.size()); ++id)
    if (says[id] < parts_.model->vocabulary())
      columns[id] = float(says[id]);
  columns_ = base::value_or_throw(drawing_device().upload(columns));
  mapped_ = base::value_or_throw(
      drawing_device().allocate(sizeof(float) * columns.size() * std::size_t(drawn_max_)));
}

/// Returns the rows of logits that the pass draws from, by the target's ids.
gpu::Tensor DraftStep::drawn_from(const Pass& pass) const {
  return mapped_ ? mapped_->tensor(drawn_max_, drawable_) : pass.workspace->logits();
}

gpu::Step::Next DraftStep::prepare(base::TimePoint now) {
  do {
    take(queue_->take().frontiers);
    DraftPass plan = planner_.plan();
    if (!plan.parts.empty()) {
      begin(std::move(plan), nullptr, *workspace_, now);
      return Next::ready;
    }
  } while (!queue_->leave_lane());
  return Next::done;
}

void DraftStep::take(std::vector<Frontier> news) {
  const bool changed = planner_.take(std::move(news));
  if (lookup_)
    lookup_->propose(planner_.sequences(), changed);
}

// Nothing is prepared while there are decisions to be taken first: a verdict, a window that is
// whole, forks to be chosen.
bool DraftStep::prepare_behind(base::TimePoint now) {
  const Pass& before = pass(prepared_ - 1);
  if (!queue_->quiet() || !can_follow(before))
    return false;
  DraftPass plan = planner_.plan_behind(before.plan);
  if (plan.parts.empty())
    return false;
  models::Workspace& other =
      before.workspace == workspace_.get() ? *workspace_behind_ : *workspace_;
  begin(std::move(plan), &before, other, now);
  base::add(parts_.telemetry->passes_behind, 1);
  return true;
}

/// Whether a pass can be prepared behind this one: every part of it draws, and the device has
/// memory for a second pass. A pass draws the target's ids, which a draft with a vocabulary of its
/// own cannot be fed, and on one device, where others do not find them. What a state holds is known
/// behind the pass. A block goes on from nothing that was drafted.
bool DraftStep::can_follow(const Pass& before) {
  const bool has_states = parts_.pool->shape().state_bytes > 0;
  const bool blocks = parts_.model->block_tokens() > 0;
  if (before.plan.fork_rows > 0 || parts_.map || is_divided() || has_states || blocks)
    return false;
  if (!workspace_behind_)
    if (auto made = parts_.model->make_workspace(parts_.max_num_seqs, parts_.max_num_seqs))
      workspace_behind_ = std::move(*made);
  if (!workspace_behind_)
    return false;
  for (std::size_t i = 0; i < before.plan.parts.size(); ++i) {
    const DraftRows& rows = before.plan.parts[i];
    const speculation::Drafters& drafters = rows.sequence->at.drafters;
    if (rows.draws < 0 || lacks_q(rows, before.draws[i].q) || drafters.lookup || drafters.form())
      return false;
  }
  return true;
}

void DraftStep::begin(DraftPass plan, const Pass* before, models::Workspace& workspace,
                      base::TimePoint now) {
  Pass& pass = this->pass(prepared_++);
  pass = {};
  pass.plan = std::move(plan);
  pass.begin = now;
  pass.workspace = &workspace;
  for (const DraftRows& rows : pass.plan.parts)
    pass.draws.resize(pass.draws.size() + std::size_t(rows.drawn));
  std::vector<models::SequenceRows> batch;
  std::span<Draw> left = pass.draws;
  for (const DraftRows& rows : pass.plan.parts) {
    const auto draws = left.first(std::size_t(rows.drawn));
    left = left.subspan(draws.size());
    speculation::DraftPlanner::begins(rows);
    if (rows.fork)
      if (const auto copy = std::exchange(rows.fork->copy, std::nullopt))
        pass.copies.push_back(*copy);
    if (rows.pending()) {
      const gpu::ProposeTask& drawn = before->tasks[std::size_t(rows.follows)];
      draws.front().pending = drawn.place ? drawn.place : &drawn.token;
    }
    batch.push_back(rows_for(rows, draws.empty() ? nullptr : draws.front().pending));
    pass.rows += batch.back().rows();
    pass.masks += batch.back().masks;
    if (rows.draws >= 0)
      begin_drawing(rows, draws);
  }
  parts_.model->plan(batch, *parts_.pool, workspace);
  const gpu::Tensor logits = drawn_from(pass);
  for (const DraftRows& rows : pass.plan.parts)
    for (int i = 0; i < rows.drawn; ++i) {
      const int row = int(pass.tasks.size());
      pass.tasks.push_back(
          task(rows, pass.draws[std::size_t(row)], rows.draws + i, logits.row(row)));
    }
}

/// Returns what the model is fed for a part. pending: the place of its token, if that is still
/// being drawn.
models::SequenceRows DraftStep::rows_for(const DraftRows& rows, const TokenId* pending) const {
  models::SequenceRows out{.pages = rows.pages(), .start = rows.slot, .tokens = rows.read()};
  out.drawn = pending;
  out.features = features_of(rows);
  out.logits_from = out.rows();
  if (rows.draws >= 0 && parts_.model->block_tokens() > 0) {
    out.masks = rows.draws + rows.drawn - rows.end();
    out.logits_from += rows.draws - rows.end();
  } else if (rows.draws >= 0) {
    --out.logits_from;
  }
  if (const gpu::PageRef& state = rows.sequence->at.pages->state) {
    out.state = state->id;
    out.tentative = std::max(0, rows.slot + out.rows() - rows.sequence->at.length());
  }
  return out;
}

models::Features DraftStep::features_of(const DraftRows& rows) const {
  const speculation::TargetFeatures& features = rows.sequence->at.features;
  if (!features.pages)
    return {};
  models::Features read{parts_.target_pool.get(), features.pages->ids, features.count};
  if (features.path) {
    read.path = features.path->ids;
    read.path_from = features.path_from;
  }
  return read;
}

/// Binds the positions from here on, up to one that needs a row of q for which there is none.
void DraftStep::begin_drawing(const DraftRows& rows, std::span<Draw> draws) {
  const Frontier& at = rows.sequence->at;
  const int known = rows.pending() ? rows.draws - 1 : rows.draws;
  bool lacking = false;
  for (int i = 0; i < rows.drawn; ++i) {
    Draw& draw = draws[std::size_t(i)];
    for (int before = at.log_length; before < known; ++before)
      draw.prefix.push_back(rows.token_at(before));
    if (lacking || !at.spec->needs_q())
      continue;
    draw.q = rows_->take(rows.fork ? std::size_t(at.forking.window) + 1 : 0); // Windows go first.
    lacking = !draw.q;
    if (lacking)
      rows.chain().end_at(rows.draws + i);
  }
  rows.chain().bind(rows.draws + rows.drawn);
}

/// Returns how the token at a position is drawn. The penalties of one within a block do not count
/// the block's tokens before it, which are being drawn, too.
gpu::ProposeTask DraftStep::task(const DraftRows& rows, Draw& draw, int position,
                                 const float* logits) const {
  const Frontier& at = rows.sequence->at;
  gpu::ProposeTask task;
  task.logits = logits;
  task.vocabulary = drawable_;
  task.warping = &at.spec->warping;
  task.history = {at.log->first(at.log_length), std::size_t(at.spec->prompt_tokens), draw.prefix};
  task.rule = at.spec->judged_by();
  task.noise = at.spec->noise;
  task.unseen = draw.pending;
  task.position = std::uint32_t(position);
  task.attempt = rows.chain().attempt();
  task.guesses_wanted = at.forking.rows > 0 || at.forking.learns || at.early_end.least > 0;
  task.q = draw.q.get();
  task.q_size = rows_->row_length(); // Ids that only the target has are never drafted.
  return task;
}

gpu::Work DraftStep::work() const {
  const Pass& last = pass(prepared_ - 1);
  gpu::Work work{gpu::Work::Kind::draft, last.rows + last.masks, int(last.plan.parts.size())};
  work.cache_width = parts_.model->cache_width();
  for (const DraftRows& rows : last.plan.parts) {
    const int end = rows.slot + int(rows.read().size());
    work.context = std::max(work.context, end);
    work.decode_reads += end;
  }
  return work;
}

void DraftStep::run(gpu::Operations& operations) {
  Pass& pass = this->pass(completed_ + (this->pass(completed_).has_run ? 1 : 0));
  copy_pages(operations, *parts_.pool, pass.copies);
  parts_.model->forward(operations, *pass.workspace);
  if (!is_divided()) {
    draw(operations, pass);
    if (operations.rank() == 0) // All ranks have read it: an operation ends on all of them.
      pass.has_run = true;
    return;
  }
  operations.meet(); // Behind it the logits are whole.
  const gpu::ShardRange here = operations.shards();
  const int drawing = parts_.model->logits_shard();
  if (drawing >= here.first && drawing < here.end())
    draw(operations, pass);
}

void DraftStep::draw(gpu::Operations& operations, Pass& pass) const {
  if (mapped_ && !pass.tasks.empty()) {
    const int rows = int(pass.tasks.size());
    operations.gather_columns(drawn_from(pass).slice(0, rows),
                              pass.workspace->logits().slice(0, rows),
                              reinterpret_cast<const float*>(columns_->data()));
  }
  operations.propose(pass.tasks);
}

void DraftStep::complete(base::TimePoint now) {
  Pass& pass = this->pass(completed_++);
  const base::TimePoint begin = std::max(pass.begin, last_end_);
  last_end_ = now;
  if (pass.rows <= 2 * int(pass.tasks.size())) // The pass drafted, and did not mostly catch up.
    pace_.observe(now - begin, pass.plan.fork_rows);
  std::size_t next = 0;
  const auto share = (now - begin) / std::max<std::int64_t>(1, std::int64_t(pass.tasks.size()));
  for (DraftRows& rows : pass.plan.parts) {
    const auto drawn = std::size_t(rows.drawn);
    complete(rows, std::span(pass.draws).subspan(next, drawn),
             std::span(pass.tasks).subspan(next, drawn), share);
    next += drawn;
  }
  base::add(parts_.telemetry->drafted, pass.tasks.size());
  base::add(parts_.telemetry->forked, pass.plan.fork_rows);
  parts_.telemetry->overlap.drafted(begin, now);
  pass.plan.parts.clear(); // The pass behind this one needs only its tasks.
  pass.draws.clear();
}

/// Completes a part. drawn: empty if the part drew nothing. share: of the pass's time, for a token.
void DraftStep::complete(DraftRows& rows, std::span<Draw> draws,
                         std::span<const gpu::ProposeTask> drawn, base::Duration share) {
  speculation::Chain& chain = rows.chain();
  if (rows.pending()) {
    if (chain.drawn() < rows.draws) // The pass before drew nothing that could be fed.
      return;
    rows.tokens = {chain.token(rows.start)};
  }
  speculation::DraftPlanner::fed(rows);
  if (drawn.empty())
    return;
  chain.spent(share * std::int64_t(drawn.size()), pace_);
  if (rows.fork)
    rows.sequence->at.chain->spent(share * std::int64_t(drawn.size()), pace_);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const int position = rows.draws + int(i);
    if (drawn[i].failed || lacks_q(rows, draws[i].q))
      return chain.end_at(position);
    chain.put(position, drawn[i].token, std::move(draws[i].q), drawn[i].guesses);
  }
}

// Nobody waits for what an abandoned step left undone.
void DraftStep::retire(const gpu::Retirement& how) {
  if (how.completed)
    return;
  planner_.abandon();
  if (lookup_)
    lookup_->abandon();
  passes_ = {};
  completed_ = prepared_;
  queue_->fail();
}

} // namespace paceline::execution
