// Drawing, judging and scoring on a CPU lane: the sampling layer's functions, one task or row per
// rank at a time.
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
  task.failed = !sampling::warp({task.logits, vocabulary}, task.vocabulary, *task.warping,
                                task.history, warp_scratch_, {row, vocabulary});
  if (!task.failed)
    task.token =
        sampling::propose(task.rule, {row, vocabulary}, task.noise, task.position, task.attempt);
  if (task.guesses_wanted && !task.failed)
    task.guesses =
        sampling::guess({task.logits, vocabulary}, task.vocabulary, *task.warping, task.history,
                        task.rule, task.noise, task.position, task.token, warp_scratch_);
}

void CpuOperations::verify(std::span<VerifyTask> tasks) {
  for (std::size_t i = std::size_t(rank_); i < tasks.size(); i += std::size_t(team_.ranks))
    verify_one(tasks[i]);
  barrier();
}

// Row by row: rows after the first rejection are never looked at.
void CpuOperations::verify_one(VerifyTask& task) {
  task.accepted = 0;
  task.ended = task.failed = false;
  task.logprobs.clear();
  const int count = int(task.tokens.size());
  const auto vocabulary = std::size_t(task.vocabulary);
  probabilities_.resize(std::max(probabilities_.size(), vocabulary));
  const std::span<const float> p(probabilities_.data(), vocabulary);
  for (int row = 0; row < count + (task.follow ? 1 : 0); ++row) {
    if (!warp_row(task, row)) {
      task.failed = true;
      return;
    }
    const std::uint32_t position = task.position + std::uint32_t(row);
    sampling::Judgement judged;
    if (row < count) {
      const auto at = std::size_t(row);
      const std::span<const float> q =
          task.q.empty() ? std::span<const float>() : std::span(task.q[at], vocabulary);
      judged = sampling::judge(task.rule, p, q, task.tokens[at], task.noise, position);
    } else {
      judged.token = sampling::follow(task.rule, p, task.noise, position);
    }
    add_logprob(task, row, judged.token);
    if (!judged.accepted) {
      task.next = judged.token;
      task.ended = true;
      return;
    }
    ++task.accepted;
  }
}

// Leaves the warped distribution of `row` in probabilities_.
bool CpuOperations::warp_row(VerifyTask& task, int row) {
  const auto vocabulary = std::size_t(task.vocabulary);
  const auto judged = task.tokens.first(std::min(std::size_t(row), task.tokens.size()));
  sampling::History history = task.history;
  if (history.prefix.empty()) {
    history.prefix = judged;
  } else {
    prefix_.assign(history.prefix.begin(), history.prefix.end());
    prefix_.insert(prefix_.end(), judged.begin(), judged.end());
    history.prefix = prefix_;
  }
  const float* logits = task.logits + std::size_t(row) * std::size_t(task.stride);
  return sampling::warp({logits, vocabulary}, task.vocabulary, *task.warping, history,
                        warp_scratch_, {probabilities_.data(), vocabulary});
}

void CpuOperations::add_logprob(VerifyTask& task, int row, TokenId token) const {
  if (task.top_logprobs < 0)
    return;
  const auto vocabulary = std::size_t(task.vocabulary);
  const float* logits = task.logits + std::size_t(row) * std::size_t(task.stride);
  task.logprobs.push_back(
      task.logprobs_mode == LogprobsMode::raw
          ? sampling::logprob_of({logits, vocabulary}, task.vocabulary, token, task.top_logprobs)
          : sampling::logprob_of_warped({probabilities_.data(), vocabulary}, token,
                                        task.top_logprobs));
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
