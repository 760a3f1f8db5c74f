// Drawing, judging and scoring on a CPU lane, with the sampling layer's functions, one task or row
// per rank at a time.
#include "gpu/cpu/operations.hpp"

#include <algorithm>

namespace paceline::gpu::cpu {

void CpuOperations::propose(std::span<ProposeTask> tasks) {
  for (std::size_t i = std::size_t(rank_); i < tasks.size(); i += std::size_t(team_.ranks))
    propose_one(tasks[i]);
  barrier();
}

void CpuOperations::propose_one(ProposeTask& task) {
  const auto vocabulary = std::size_t(task.vocabulary);
  float* row = task.q;
  if (!row) {
    probabilities_.resize(std::max(probabilities_.size(), vocabulary));
    row = probabilities_.data();
  }
  sampling::History history = task.history;
  if (task.unseen)
    history.prefix = joined(history.prefix, {task.unseen, 1});
  task.failed = !sampling::warp({task.logits, vocabulary}, task.vocabulary, *task.warping, history,
                                warp_scratch_, {row, vocabulary});
  if (task.q && task.q_size > task.vocabulary)
    std::fill(task.q + task.vocabulary, task.q + task.q_size, 0.0f);
  if (!task.failed)
    task.token =
        sampling::propose(task.rule, {row, vocabulary}, task.noise, task.position, task.attempt);
  task.failed = task.failed || task.token < 0;
  if (task.guesses_wanted && !task.failed)
    task.guesses =
        sampling::guess({task.logits, vocabulary}, task.vocabulary, *task.warping, history,
                        task.rule, task.noise, task.position, task.token, warp_scratch_);
}

// Rows are judged in parallel, since each depends only on its own logits and the tokens drafted
// before it. Rows after a known rejection are skipped.
void CpuOperations::verify(std::span<VerifyTask> tasks) {
  if (rank_ == 0)
    team_.judging.begin(tasks);
  barrier();
  Judging& judging = team_.judging;
  for (std::size_t i = std::size_t(rank_); i < judging.items.size();
       i += std::size_t(team_.ranks)) {
    Judging::Item& item = judging.items[i];
    std::atomic<int>& last_row = judging.last_row[item.task];
    if (item.row > last_row.load(std::memory_order_relaxed))
      continue;
    judge_row(tasks[item.task], item);
    if (item.failed || !item.judged.accepted)
      for (int seen = last_row; item.row < seen && !last_row.compare_exchange_weak(seen, item.row);)
        ;
  }
  barrier();
  if (rank_ == 0)
    judging.conclude(tasks);
  barrier();
}

void Judging::begin(std::span<const VerifyTask> tasks) {
  const auto rows = [](const VerifyTask& task) {
    return int(task.tokens.size()) + (task.follow ? 1 : 0);
  };
  items.clear();
  last_row = std::vector<std::atomic<int>>(tasks.size());
  int most = 0;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    last_row[t] = rows(tasks[t]) - 1;
    most = std::max(most, rows(tasks[t]));
  }
  for (int row = 0; row < most; ++row) // First rows come first: later ones may be skipped.
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (row < rows(tasks[t]))
        items.push_back({t, row, false, false, {}, {}});
}

void Judging::conclude(std::span<VerifyTask> tasks) {
  for (VerifyTask& task : tasks) {
    task.accepted = 0;
    task.ended = task.failed = task.inconsistent_draw = false;
    task.logprobs.clear();
  }
  for (Item& item : items) { // Each task's rows are in order.
    VerifyTask& task = tasks[item.task];
    if (item.row > last_row[item.task])
      continue;
    task.failed = item.failed;
    task.inconsistent_draw |= item.inconsistent_draw;
    if (item.failed)
      continue;
    if (task.top_logprobs >= 0)
      task.logprobs.push_back(std::move(item.logprob));
    if (item.judged.accepted) {
      ++task.accepted;
    } else {
      task.next = item.judged.token;
      task.ended = true;
    }
  }
}

void CpuOperations::judge_row(VerifyTask& task, Judging::Item& item) {
  const auto vocabulary = std::size_t(task.vocabulary);
  probabilities_.resize(std::max(probabilities_.size(), vocabulary));
  const std::uint32_t position = task.position + std::uint32_t(item.row);
  const auto at = std::size_t(item.row);
  std::span<const float> q;
  if (at < task.tokens.size() && !task.q.empty() && task.q[at])
    q = {task.q[at], vocabulary};
  item.inconsistent_draw =
      task.check_draws && task.rule == sampling::Rule::rejection && !q.empty() &&
      !sampling::is_draw(task.tokens[at], task.rule, q, task.noise, position, task.attempt);
  item.failed = !warp_row(task, item.row);
  if (item.failed)
    return;
  const std::span<const float> p(probabilities_.data(), vocabulary);
  if (at < task.tokens.size()) {
    item.judged = sampling::judge(task.rule, p, q, task.tokens[at], task.noise, position);
  } else {
    item.judged = {false, sampling::follow(task.rule, p, task.noise, position)};
  }
  item.failed = item.judged.token < 0;
  if (item.failed)
    return;
  if (task.top_logprobs >= 0)
    item.logprob = logprob_of(task, item.row, item.judged.token);
}

std::span<const TokenId> CpuOperations::joined(std::span<const TokenId> prefix,
                                               std::span<const TokenId> tokens) {
  prefix_.assign(prefix.begin(), prefix.end());
  prefix_.insert(prefix_.end(), tokens.begin(), tokens.end());
  return prefix_;
}

// Writes the warped distribution of `row` to probabilities_.
bool CpuOperations::warp_row(VerifyTask& task, int row) {
  const auto vocabulary = std::size_t(task.vocabulary);
  const auto judged = task.tokens.first(std::min(std::size_t(row), task.tokens.size()));
  sampling::History history = task.history;
  history.prefix = history.prefix.empty() ? judged : joined(history.prefix, judged);
  const float* logits = task.logits + std::size_t(row) * std::size_t(task.stride);
  return sampling::warp({logits, vocabulary}, task.vocabulary, *task.warping, history,
                        warp_scratch_, {probabilities_.data(), vocabulary});
}

TokenLogprob CpuOperations::logprob_of(const VerifyTask& task, int row, TokenId token) const {
  const auto vocabulary = std::size_t(task.vocabulary);
  if (task.logprobs_mode != LogprobsMode::raw)
    return sampling::logprob_of_warped({probabilities_.data(), vocabulary}, token,
                                       task.top_logprobs);
  const float* logits = task.logits + std::size_t(row) * std::size_t(task.stride);
  return sampling::logprob_of({logits, vocabulary}, task.vocabulary, token, task.top_logprobs);
}

void CpuOperations::score(std::span<ScoreTask> tasks) {
  if (rank_ == 0)
    for (ScoreTask& task : tasks)
      task.logprobs.resize(task.tokens.size());
  barrier();
  std::size_t item = 0;
  for (ScoreTask& task : tasks)
    for (std::size_t row = 0; row < task.tokens.size(); ++row, ++item) {
      if (item % std::size_t(team_.ranks) != std::size_t(rank_))
        continue;
      const float* logits = task.logits + row * std::size_t(task.stride);
      task.logprobs[row] = sampling::logprob_of({logits, std::size_t(task.vocabulary)},
                                                task.vocabulary, task.tokens[row], task.top);
    }
  barrier();
}

} // namespace paceline::gpu::cpu
