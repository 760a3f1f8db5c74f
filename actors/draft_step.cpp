#include "actors/draft_step.hpp"

#include "actors/limits.hpp"
#include "base/expect.hpp"
#include "sampling/limits.hpp"

#include <algorithm>
#include <utility>

namespace paceline::actors {

using messages::Chain;
using messages::Frontier;

namespace {

/// The sequence's token at `position`: committed, or of its chain.
TokenId token_at(const Frontier& at, int position) {
  if (position < at.log_length)
    return at.log->first(at.log_length)[std::size_t(position)];
  if (position < at.length())
    return at.tokens[std::size_t(position - at.log_length)];
  return at.chain->token(position);
}

} // namespace

TokenId DraftStep::Part::token_at(int position) const {
  if (!fork || position < fork->position)
    return actors::token_at(sequence->at, position);
  return position == fork->position ? fork->token : fork->chain->token(position);
}

DraftStep::DraftStep(Parts parts, std::shared_ptr<DraftBoard> board)
    : parts_(std::move(parts)), drawable_(std::min(parts_.vocabulary, parts_.model->vocabulary())),
      board_(std::move(board)),
      workspace_(base::value_or_throw(parts_.model->make_workspace(
          limits::draft_prefill_chunk + parts_.max_num_seqs * (sampling::limits::window_max + 1) +
              parts_.fork_rows,
          parts_.max_num_seqs + parts_.fork_rows))),
      rows_(std::make_shared<RowPool>(parts_.device, parts_.reader, parts_.vocabulary)) {}

gpu::Step::Next DraftStep::prepare(base::TimePoint now) {
  do {
    absorb(board_->take());
    Pass& pass = next_pass(now);
    choose(pass);
    if (!pass.parts.empty()) {
      plan(pass, *workspace_);
      return Next::ready;
    }
  } while (!board_->rest());
  return Next::done;
}

// What is known by now is waited for: a verdict, a window that is whole, forks to be chosen.
bool DraftStep::prepare_behind(base::TimePoint now) {
  const Pass& before = pass(prepared_ - 1);
  if (!board_->quiet() || before.fork_rows > 0 || !make_room_behind())
    return false;
  Pass& behind = next_pass(now);
  follow(behind, before);
  if (behind.parts.empty() || (behind.leaves_out && !behind.hurries))
    return false;
  plan(behind, before.workspace == workspace_.get() ? *workspace_behind_ : *workspace_);
  add(parts_.telemetry->passes_behind, 1);
  return true;
}

DraftStep::Pass& DraftStep::next_pass(base::TimePoint now) {
  Pass& made = pass(prepared_);
  made = {};
  made.begin = now;
  return made;
}

/// False where the device has no memory for it: then each pass waits for the one before it.
bool DraftStep::make_room_behind() {
  if (!workspace_behind_)
    if (auto made = parts_.model->make_workspace(parts_.max_num_seqs, parts_.max_num_seqs))
      workspace_behind_ = std::move(*made);
  return workspace_behind_ != nullptr;
}

void DraftStep::absorb(DraftBoard::News news) {
  for (Frontier& frontier : news.frontiers)
    if (!frontier.residence->over.load(std::memory_order_acquire))
      absorb(std::move(frontier));
  std::erase_if(sequences_, [](const auto& entry) {
    return entry.second.at.residence->over.load(std::memory_order_acquire);
  });
}

void DraftStep::absorb(Frontier frontier) {
  Sequence& s = sequences_[frontier.spec->id];
  const bool first_stay = !s.at.residence || s.at.residence->epoch < frontier.residence->epoch;
  if (!first_stay &&
      (frontier.epoch < s.at.epoch || frontier.residence->epoch < s.at.residence->epoch))
    return; // older news than what is known
  if (first_stay || frontier.epoch != s.at.epoch)
    s.forks.clear();
  if (first_stay) {
    const auto cached = frontier.log->first(frontier.residence->cached_at_grant);
    s.fed.assign(cached.begin(), cached.end());
    s.agreed = int(s.fed.size());
  }
  const bool same_chain = s.at.chain == frontier.chain;
  s.at = std::move(frontier);
  const int length = s.at.length();
  while (s.agreed < std::min(length, int(s.fed.size())) &&
         s.fed[std::size_t(s.agreed)] == token_at(s.at, s.agreed))
    ++s.agreed;
  if (!same_chain || s.agreed < length)
    s.fed.resize(std::size_t(s.agreed));
  s.at.residence->cached.store(s.agreed, std::memory_order_release);
}

void DraftStep::choose(Pass& pass) {
  // A window somebody waits for, or will soon, goes before those that have much to read first.
  for (auto& [id, s] : sequences_) {
    const Reach reach = reach_of(s);
    pass.hurries |= reach.draws >= 0 && reach.draws < s.at.chain->window_end() && !reach.far();
  }
  int budget = limits::draft_prefill_chunk;
  for (auto& [id, s] : sequences_) {
    const Reach reach = reach_of(s);
    const bool left_out = pass.hurries && reach.far();
    pass.leaves_out |= left_out || s.at.forking.rows > 0;
    if (!left_out)
      choose(pass, s, reach, budget);
  }
  if (!pass.hurries)
    choose_forks(pass);
}

/// Only when nobody waits for a window, and for sequences whose own window is whole.
void DraftStep::choose_forks(Pass& pass) {
  for (auto& [id, s] : sequences_) {
    const Frontier& at = s.at;
    if (at.forking.rows == 0 || at.chain->closed() || at.chain->drawn() < at.chain->window_end())
      continue;
    for (Fork* fork : s.forks.choose(at, int(s.fed.size()), this->context(), *parts_.pool)) {
      if (pass.fork_rows >= parts_.fork_rows)
        return;
      Part part{&s, fork, {}, fork->fed, fork->chain->next(), {}, nullptr};
      part.tokens.push_back(part.token_at(fork->fed));
      pass.parts.push_back(std::move(part));
      ++pass.fork_rows;
    }
  }
}

bool DraftStep::Reach::far() const {
  return end - start > sampling::limits::window_max + 1;
}

int DraftStep::context() const {
  return parts_.model->info().max_model_len;
}

int DraftStep::context(const Sequence& s) const {
  return std::min(context(), s.at.pages->capacity());
}

DraftStep::Reach DraftStep::reach_of(const Sequence& s) const {
  const int context = this->context(s);
  const int fed = int(s.fed.size());
  const int draws = s.at.chain->next();
  if (draws >= 0 && draws <= context) // the last token is fed again when all are: for its logits
    return {std::min(fed, draws - 1), draws, draws};
  if (draws > context) // its logits would need a token that has no room
    s.at.chain->end_at(draws);
  const int end = std::min(s.at.length(), context);
  return {std::min(fed, end), end, -1};
}

void DraftStep::choose(Pass& pass, Sequence& s, const Reach& reach, int& budget) {
  const int missing = reach.end - reach.start;
  const int count = reach.far() ? std::min(missing, budget) : missing;
  if (count == 0)
    return;
  if (reach.far())
    budget -= count;
  Part part{&s, nullptr, {}, reach.start, count == missing ? reach.draws : -1, {}, nullptr};
  for (int i = reach.start; i < reach.start + count; ++i)
    part.tokens.push_back(token_at(s.at, i));
  pass.parts.push_back(std::move(part));
}

/// What `choose` would take once the pass before has completed; nothing where that depends on what
/// it draws.
void DraftStep::follow(Pass& pass, const Pass& before) const {
  pass.leaves_out = before.leaves_out;
  std::size_t next_task = 0;
  for (const Part& part : before.parts) {
    if (part.draws < 0 || part.lacks_q())
      return pass.parts.clear();
    const gpu::ProposeTask& drawn = before.tasks[next_task++];
    const int draws = part.chain().next(1);
    if (draws < 0 || draws > context(*part.sequence))
      continue;
    Part further{part.sequence, nullptr, {0}, part.draws, draws, {}, nullptr};
    further.unseen = drawn.place ? drawn.place : &drawn.token;
    pass.hurries |= draws < part.chain().window_end();
    pass.parts.push_back(std::move(further));
  }
}

void DraftStep::plan(Pass& pass, models::Workspace& workspace) {
  std::vector<models::SequenceRows> batch;
  for (Part& part : pass.parts) {
    const Frontier& at = part.sequence->at;
    if (part.fork) {
      if (const auto copy = std::exchange(part.fork->copy, std::nullopt))
        pass.copies.push_back(*copy);
    } else if (!part.unseen) {
      part.sequence->fed.resize(std::size_t(part.start));
    }
    const int count = int(part.tokens.size());
    batch.push_back({part.pages(), part.start, part.tokens, part.draws < 0 ? count : count - 1,
                     false, part.unseen});
    pass.rows += count;
    if (part.draws < 0)
      continue;
    part.chain().bind(part.draws + 1);
    if (at.spec->needs_q())
      part.q = rows_->take();
    const int seen = part.unseen ? part.draws - 1 : part.draws;
    for (int i = at.log_length; i < seen; ++i)
      part.prefix.push_back(part.token_at(i));
  }
  parts_.model->plan(batch, *parts_.pool, workspace);
  pass.workspace = &workspace;
  const gpu::Tensor logits = workspace.logits();
  for (Part& part : pass.parts)
    if (part.draws >= 0)
      pass.tasks.push_back(task(part, logits.row(int(pass.tasks.size()))));
  ++prepared_;
}

gpu::ProposeTask DraftStep::task(Part& part, const float* logits) {
  const Frontier& at = part.sequence->at;
  gpu::ProposeTask task;
  task.logits = logits;
  task.vocabulary = drawable_;
  task.warping = &at.spec->warping;
  task.history = {at.log->first(at.log_length), std::size_t(at.spec->prompt_tokens), part.prefix};
  task.rule = at.spec->judged_by();
  task.noise = at.spec->noise;
  task.unseen = part.unseen;
  task.position = std::uint32_t(part.draws);
  task.attempt = part.chain().attempt();
  task.guesses_wanted = at.forking.rows > 0;
  task.q = part.q.get();
  task.q_size = rows_->row_length(); // ids that only the target has are never drafted
  return task;
}

gpu::Work DraftStep::work() const {
  const Pass& last = pass(prepared_ - 1);
  int context = 0;
  for (const Part& part : last.parts)
    context = std::max(context, part.start + int(part.tokens.size()));
  return {gpu::Work::Kind::draft, last.rows, int(last.parts.size()), context};
}

void DraftStep::run(gpu::Operations& operations) {
  Pass& pass = this->pass(completed_ + (this->pass(completed_).has_run ? 1 : 0));
  if (!pass.copies.empty())
    operations.copy_pages(*parts_.pool, pass.copies);
  parts_.model->forward(operations, *pass.workspace);
  operations.propose(pass.tasks);
  if (operations.rank() == 0) // all have looked for the pass: an operation ends on all of them
    pass.has_run = true;
}

void DraftStep::complete(base::TimePoint now) {
  Pass& pass = this->pass(completed_++);
  const base::TimePoint begin = std::max(pass.begin, last_end_);
  last_end_ = now;
  std::size_t next_task = 0;
  const auto share = (now - begin) / std::max<std::int64_t>(1, std::int64_t(pass.tasks.size()));
  for (Part& part : pass.parts) {
    const gpu::ProposeTask* drawn = part.draws < 0 ? nullptr : &pass.tasks[next_task++];
    if (part.unseen) {
      if (part.chain().drawn() < part.draws) // the pass before drew nothing that could be fed
        continue;
      part.tokens = {part.chain().token(part.start)};
    }
    Sequence& s = *part.sequence;
    if (part.fork) {
      ++part.fork->fed;
    } else {
      s.fed.insert(s.fed.end(), part.tokens.begin(), part.tokens.end());
      s.at.residence->cached.store(std::min(int(s.fed.size()), s.at.length()),
                                   std::memory_order_release);
    }
    if (!drawn)
      continue;
    part.chain().add_busy(share);
    take_drawn(part, *drawn);
  }
  add(parts_.telemetry->drafted, pass.tasks.size());
  add(parts_.telemetry->forked, pass.fork_rows);
  parts_.telemetry->overlap.drafted(begin, now);
  if (pass.rows <= 2 * int(pass.tasks.size())) // a drafting pass, not one of catching up
    note_time(pass, now - begin);
  pass.parts.clear(); // the pass behind this one wants nothing but its tasks
}

void DraftStep::take_drawn(Part& part, const gpu::ProposeTask& drawn) {
  if (drawn.failed || part.lacks_q())
    part.chain().end_at(part.draws);
  else
    part.chain().put(part.draws, drawn.token, std::move(part.q), drawn.guesses);
}

void DraftStep::note_time(const Pass& pass, base::Duration took) const {
  auto& mean =
      pass.fork_rows > 0 ? parts_.telemetry->draft_fork_step_ns : parts_.telemetry->draft_step_ns;
  const auto old = mean.load(std::memory_order_relaxed);
  auto ns = took.count();
  if (old > 0) // one that stalled says little of the next
    ns = std::min(ns, 8 * old);
  mean.store(old ? old + (ns - old) / 8 : ns, std::memory_order_relaxed);
}

// Nobody waits for what an abandoned step left undone.
void DraftStep::retire(const gpu::Retirement& how) {
  if (how.completed)
    return;
  for (auto& [id, s] : sequences_) {
    s.at.chain->end_at(s.at.chain->drawn());
    s.forks.end();
  }
  sequences_.clear();
  passes_ = {};
  completed_ = prepared_;
  board_->fail();
}

} // namespace paceline::actors
