#include "actors/draft_step.hpp"

#include "actors/limits.hpp"
#include "base/expect.hpp"
#include "sampling/limits.hpp"

#include <algorithm>

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
    choose();
    if (!pass_.empty()) {
      plan();
      begin_ = now;
      return Next::ready;
    }
  } while (!board_->rest());
  return Next::done;
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

void DraftStep::choose() {
  pass_.clear();
  // A window somebody waits for, or will soon, goes before those that have much to read first.
  bool hurry = false;
  for (auto& [id, s] : sequences_) {
    const Reach reach = reach_of(s);
    hurry |= reach.draws >= 0 && reach.draws < s.at.chain->window_end() && !reach.far();
  }
  int budget = limits::draft_prefill_chunk;
  for (auto& [id, s] : sequences_)
    if (const Reach reach = reach_of(s); !(hurry && reach.far()))
      choose(s, reach, budget);
  fork_rows_ = 0;
  if (!hurry)
    choose_forks();
}

/// Only when nobody waits for a window, and for sequences whose own window is whole.
void DraftStep::choose_forks() {
  for (auto& [id, s] : sequences_) {
    const Frontier& at = s.at;
    if (at.forking.rows == 0 || at.chain->closed() || at.chain->drawn() < at.chain->window_end())
      continue;
    for (Fork* fork : s.forks.choose(at, int(s.fed.size()), this->context(), *parts_.pool)) {
      if (fork_rows_ >= parts_.fork_rows)
        return;
      Part part{&s, fork, {}, fork->fed, fork->chain->next(), {}, nullptr};
      part.tokens.push_back(part.token_at(fork->fed));
      pass_.push_back(std::move(part));
      ++fork_rows_;
    }
  }
}

bool DraftStep::Reach::far() const {
  return end - start > sampling::limits::window_max + 1;
}

int DraftStep::context() const {
  return parts_.model->info().max_model_len;
}

DraftStep::Reach DraftStep::reach_of(const Sequence& s) const {
  const int context = std::min(this->context(), s.at.pages->capacity());
  const int fed = int(s.fed.size());
  const int draws = s.at.chain->next();
  if (draws >= 0 && draws <= context) // the last token is fed again when all are: for its logits
    return {std::min(fed, draws - 1), draws, draws};
  if (draws > context) // its logits would need a token that has no room
    s.at.chain->end_at(draws);
  const int end = std::min(s.at.length(), context);
  return {std::min(fed, end), end, -1};
}

void DraftStep::choose(Sequence& s, const Reach& reach, int& budget) {
  const int missing = reach.end - reach.start;
  const int count = reach.far() ? std::min(missing, budget) : missing;
  if (count == 0)
    return;
  if (reach.far())
    budget -= count;
  Part part{&s, nullptr, {}, reach.start, count == missing ? reach.draws : -1, {}, nullptr};
  for (int i = reach.start; i < reach.start + count; ++i)
    part.tokens.push_back(token_at(s.at, i));
  pass_.push_back(std::move(part));
}

void DraftStep::plan() {
  std::vector<models::SequenceRows> batch;
  rows_fed_ = 0;
  copies_.clear();
  for (Part& part : pass_) {
    const Frontier& at = part.sequence->at;
    if (!part.fork)
      part.sequence->fed.resize(std::size_t(part.start));
    else if (const auto copy = std::exchange(part.fork->copy, std::nullopt))
      copies_.push_back(*copy);
    const int count = int(part.tokens.size());
    batch.push_back({part.pages(), part.start, part.tokens, part.draws < 0 ? count : count - 1});
    rows_fed_ += count;
    if (part.draws < 0)
      continue;
    part.chain().bind(part.draws + 1);
    if (at.spec->needs_q())
      part.q = rows_->take();
    for (int i = at.log_length; i < part.draws; ++i)
      part.prefix.push_back(part.token_at(i));
  }
  parts_.model->plan(batch, *parts_.pool, *workspace_);
  tasks_.clear();
  const gpu::Tensor logits = workspace_->logits();
  for (Part& part : pass_)
    if (part.draws >= 0)
      tasks_.push_back(task(part, logits.row(int(tasks_.size()))));
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
  task.position = std::uint32_t(part.draws);
  task.attempt = part.chain().attempt();
  task.guesses_wanted = at.forking.rows > 0;
  task.q = part.q.get();
  task.q_size = rows_->row_length(); // ids that only the target has are never drafted
  return task;
}

gpu::Work DraftStep::work() const {
  int context = 0;
  for (const Part& part : pass_)
    context = std::max(context, part.start + int(part.tokens.size()));
  return {gpu::Work::Kind::draft, rows_fed_, int(pass_.size()), context};
}

void DraftStep::run(gpu::Operations& operations) {
  if (!copies_.empty())
    operations.copy_pages(*parts_.pool, copies_);
  parts_.model->forward(operations, *workspace_);
  operations.propose(tasks_);
}

void DraftStep::complete(base::TimePoint now) {
  std::size_t next_task = 0;
  const auto share = (now - begin_) / std::max<std::int64_t>(1, std::int64_t(tasks_.size()));
  for (Part& part : pass_) {
    Sequence& s = *part.sequence;
    if (part.fork) {
      ++part.fork->fed;
    } else {
      s.fed.insert(s.fed.end(), part.tokens.begin(), part.tokens.end());
      s.at.residence->cached.store(std::min(int(s.fed.size()), s.at.length()),
                                   std::memory_order_release);
    }
    if (part.draws < 0)
      continue;
    const gpu::ProposeTask& drawn = tasks_[next_task++];
    Chain& chain = part.chain();
    chain.add_busy(share);
    if (drawn.failed || (s.at.spec->needs_q() && !part.q))
      chain.end_at(part.draws);
    else
      chain.put(part.draws, drawn.token, std::move(part.q), drawn.guesses);
  }
  add(parts_.telemetry->drafted, tasks_.size());
  add(parts_.telemetry->forked, fork_rows_);
  parts_.telemetry->overlap.drafted(begin_, now);
  if (rows_fed_ <= 2 * int(tasks_.size())) { // a drafting pass, not one of catching up
    auto& mean =
        fork_rows_ > 0 ? parts_.telemetry->draft_fork_step_ns : parts_.telemetry->draft_step_ns;
    const auto old = mean.load(std::memory_order_relaxed);
    auto took = (now - begin_).count();
    if (old > 0) // one that stalled says little of the next
      took = std::min(took, 8 * old);
    mean.store(old ? old + (took - old) / 8 : took, std::memory_order_relaxed);
  }
  pass_.clear();
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
  pass_.clear();
  board_->fail();
}

} // namespace paceline::actors
