// Drawing, judging and scoring on a GPU: tasks become rows for kernels, whose results go back to
// the tasks when the piece has completed.
#include "gpu/cuda/operations.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <span>
#include <vector>

namespace paceline::gpu::cuda {
namespace {

kernels::Rule rule_of(sampling::Rule rule) {
  assert(rule != sampling::Rule::automatic);
  switch (rule) {
  case sampling::Rule::coupled: return kernels::Rule::coupled;
  case sampling::Rule::match: return kernels::Rule::match;
  default: return kernels::Rule::rejection;
  }
}

kernels::Noise noise_of(const sampling::Noise& noise) {
  return {noise.seed, noise.choice};
}

TokenLogprob logprob_of(const kernels::Logprob& given, TokenId token) {
  TokenLogprob logprob;
  logprob.token = token;
  logprob.logprob = given.token;
  for (int i = 0; i < given.top_count; ++i)
    logprob.top.emplace_back(given.top_tokens[i], given.top[i]);
  return logprob;
}

/// Returns a mask with a bit for each token of the vocabulary.
std::vector<std::uint32_t> mask_of(std::span<const TokenId> tokens, int vocabulary) {
  std::vector<std::uint32_t> bits(std::size_t(vocabulary) / 32 + 1);
  for (const TokenId token : tokens)
    if (token >= 0 && token < vocabulary)
      bits[std::size_t(token) / 32] |= 1u << (token % 32);
  return bits;
}

/// Returns the number of rows that a task has judged, including that of `follow`.
std::size_t rows_of(const VerifyTask& task) {
  return task.tokens.size() + (task.follow ? 1 : 0);
}

/// Returns the history before a row. prefix: memory for its prefix.
sampling::History before_row(const VerifyTask& task, std::size_t row,
                             std::vector<TokenId>& prefix) {
  const auto judged = task.tokens.first(std::min(row, task.tokens.size()));
  sampling::History history = task.history;
  prefix.assign(history.prefix.begin(), history.prefix.end());
  prefix.insert(prefix.end(), judged.begin(), judged.end());
  history.prefix = prefix;
  return history;
}

void give(ProposeTask& task, const kernels::ProposeResult& result) {
  task.failed = result.failed != 0 || result.token < 0;
  if (task.failed)
    return;
  task.token = result.token;
  if (!task.guesses_wanted)
    return;
  task.guesses.count = result.guess_count;
  std::copy_n(result.guesses, result.guess_count, task.guesses.tokens.begin());
  task.guesses.margin = result.margin;
}

/// Gives a task its results. results: those of the task's rows.
void give(VerifyTask& task, std::span<const kernels::VerifyResult> results) {
  task.accepted = 0;
  task.ended = task.failed = task.inconsistent_draw = false;
  task.logprobs.clear();
  for (const kernels::VerifyResult& result : results) {
    task.failed = result.failed != 0 || result.token < 0;
    task.inconsistent_draw |= result.inconsistent_draw != 0;
    if (task.failed)
      return;
    if (task.top_logprobs >= 0)
      task.logprobs.push_back(logprob_of(result.logprob, result.token));
    if (!result.accepted) {
      task.next = result.token;
      task.ended = true;
      return;
    }
    ++task.accepted;
  }
}

} // namespace

/// Memory for what kernels compute for rows. It is one allocation, distributed in two passes: the
/// first counts the words, the second assigns them.
class CudaOperations::RowScratch {
public:
  void want(const SentTask& task, std::size_t vocabulary, bool probabilities) {
    words_ +=
        vocabulary * std::size_t(int(probabilities) + int(task.adjusts) + int(task.penalises));
  }
  void allocate(DeviceScratch& memory) {
    next_ = reinterpret_cast<float*>(memory.at_least(std::max<std::size_t>(words_, 1) * 4));
  }
  /// Returns a row. probabilities: where they go; null: scratch.
  kernels::WarpRow row(const SentTask& task, const float* logits, int vocabulary,
                       float* probabilities) {
    const auto deal = [&] {
      float* dealt = next_;
      next_ += vocabulary;
      return dealt;
    };
    kernels::WarpRow row;
    row.logits = logits;
    row.vocabulary = vocabulary;
    row.warping = task.warping;
    row.history = task.history;
    row.probabilities = probabilities ? probabilities : deal();
    row.adjusted = task.adjusts ? deal() : nullptr;
    row.counts = task.penalises ? reinterpret_cast<std::uint32_t*>(deal()) : nullptr;
    return row;
  }

private:
  std::size_t words_ = 0;
  float* next_ = nullptr;
};

CudaOperations::SentTask CudaOperations::send(const sampling::Warping& w,
                                              const sampling::History& history, int vocabulary) {
  SentTask task;
  task.penalises = w.has_penalties();
  task.adjusts = w.adjusts();
  task.warping = {w.temperature,
                  w.top_k,
                  w.top_p,
                  w.min_p,
                  w.repetition_penalty,
                  w.presence_penalty,
                  w.frequency_penalty,
                  nullptr,
                  int(w.logit_bias.size()),
                  nullptr};
  if (const std::size_t count = w.logit_bias.size() + w.held_back.size(); count > 0) {
    const auto biases = arguments_.take<kernels::Bias>(count);
    for (std::size_t i = 0; i < w.logit_bias.size(); ++i)
      biases[i] = {w.logit_bias[i].first, w.logit_bias[i].second};
    for (std::size_t i = 0; i < w.held_back.size(); ++i)
      biases[w.logit_bias.size() + i] = {w.held_back[i], -std::numeric_limits<float>::infinity()};
    task.warping.biases = biases.device;
  }
  if (!w.allowed.empty())
    task.warping.allowed =
        arguments_.put(std::span<const std::uint32_t>(mask_of(w.allowed, vocabulary)));
  if (task.penalises) { // Only penalties look back.
    task.history.committed = arguments_.put(history.committed);
    task.history.committed_count = int(history.committed.size());
    task.history.prompt_tokens = int(history.prompt_tokens);
    task.history.prefix = arguments_.put(history.prefix);
    task.history.prefix_count = int(history.prefix.size());
  }
  return task;
}

/// Adds what differs between rows: what the constraint allows, and the tokens held back. history:
/// that before the row.
void CudaOperations::constrain(kernels::Warping& row, const sampling::Warping& w,
                               const sampling::History& history, int vocabulary) {
  sampling::TokenMask mask;
  if (w.constraint && w.constraint->next(history, mask)) {
    mask.resize(
        sampling::mask_words(vocabulary)); // The row may have more ids than the form's mask has.
    if (!w.allowed.empty()) {
      const auto both = mask_of(w.allowed, vocabulary);
      for (std::size_t word = 0; word < mask.size(); ++word)
        mask[word] &= both[word];
    }
    row.allowed = arguments_.put(std::span<const std::uint32_t>(mask));
  } else {
    mask.clear();
  }
  row.bias_count += int(sampling::held_back(w, history.output(), mask).size());
}

void CudaOperations::propose(std::span<ProposeTask> tasks) {
  if (tasks.empty())
    return;
  RowScratch scratch;
  std::vector<SentTask> sent;
  std::vector<float*> homes; // Rows in this GPU's memory, computed in place; null: others.
  for (const ProposeTask& task : tasks) {
    sent.push_back(send(*task.warping, task.history, task.vocabulary));
    homes.push_back(task.q && context_->holds(task.q) ? task.q : nullptr);
    scratch.want(sent.back(), std::size_t(task.vocabulary), !homes.back());
  }
  scratch.allocate(row_memory_);
  const auto rows = arguments_.take<kernels::ProposeRow>(tasks.size());
  const auto results = arguments_.take<kernels::ProposeResult>(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    ProposeTask& task = tasks[i];
    sent[i].history.judged = sent[i].penalises ? task.unseen : nullptr;
    sent[i].history.judged_count = sent[i].history.judged ? 1 : 0;
    task.place = &results.device[i].token;
    rows[i] = {scratch.row(sent[i], task.logits, task.vocabulary, homes[i]),
               rule_of(task.rule),
               noise_of(task.noise),
               task.position,
               task.attempt,
               task.guesses_wanted,
               task.q,
               task.q_size};
    if (task.unseen) // Only the GPU knows the token, so the row is drawn in any form.
      rows[i].row.warping.bias_count +=
          int(sampling::held_back(*task.warping, task.history.output() + 1, {}).size());
    else
      constrain(rows[i].row.warping, *task.warping, task.history, task.vocabulary);
  }
  PACELINE_CUDA_CHECK(kernels::propose(queue("propose"), rows.device, int(tasks.size()),
                                       results.device, tasks[0].vocabulary));
  arguments_.fetch(results); // The next piece reads tokens while the host clears its side.
  results_.emplace_back([tasks, results] {
    for (std::size_t i = 0; i < tasks.size(); ++i)
      give(tasks[i], results[i]);
  });
}

void CudaOperations::verify(std::span<VerifyTask> tasks) {
  RowScratch scratch;
  std::vector<SentTask> sent;
  std::size_t count = 0;
  for (const VerifyTask& task : tasks) {
    sent.push_back(send(*task.warping, task.history, task.vocabulary));
    for (std::size_t row = 0; row < rows_of(task); ++row, ++count)
      scratch.want(sent.back(), std::size_t(task.vocabulary), true);
  }
  if (count == 0)
    return;
  scratch.allocate(row_memory_);
  const auto rows = arguments_.take<kernels::VerifyRow>(count);
  const auto results = arguments_.take<kernels::VerifyResult>(count);
  std::size_t next = 0;
  std::vector<TokenId> prefix;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const VerifyTask& task = tasks[t];
    sent[t].history.judged = sent[t].penalises ? arguments_.put(task.tokens) : nullptr;
    for (std::size_t i = 0; i < rows_of(task); ++i) {
      kernels::VerifyRow& row = rows[next++];
      row.row = scratch.row(sent[t], task.logits + i * std::size_t(task.stride), task.vocabulary,
                            nullptr);
      row.row.history.judged_count = sent[t].penalises ? int(i) : 0;
      constrain(row.row.warping, *task.warping, before_row(task, i, prefix), task.vocabulary);
      row.rule = rule_of(task.rule);
      row.noise = noise_of(task.noise);
      row.position = task.position + std::uint32_t(i);
      row.judges = i < task.tokens.size();
      row.token = row.judges ? task.tokens[i] : 0;
      const bool shows_q = row.judges && row.rule == kernels::Rule::rejection && !task.q.empty();
      row.q = shows_q ? task.q[i] : nullptr;
      row.top_logprobs = task.top_logprobs;
      row.raw_logprobs = task.logprobs_mode == LogprobsMode::raw;
      row.check_draw = task.check_draws && row.q;
      row.attempt = task.attempt;
    }
  }
  PACELINE_CUDA_CHECK(
      kernels::verify(queue("verify"), rows.device, int(count), results.host, tasks[0].vocabulary));
  results_.emplace_back([tasks, results] {
    std::span<const kernels::VerifyResult> left(results.host, results.count);
    for (VerifyTask& task : tasks) {
      give(task, left.first(rows_of(task)));
      left = left.subspan(rows_of(task));
    }
  });
}

void CudaOperations::score(std::span<ScoreTask> tasks) {
  std::size_t count = 0;
  for (const ScoreTask& task : tasks)
    count += task.tokens.size();
  if (count == 0)
    return;
  const auto rows = arguments_.take<kernels::ScoreRow>(count);
  const auto results = arguments_.take<kernels::Logprob>(count);
  std::size_t next = 0;
  for (const ScoreTask& task : tasks)
    for (std::size_t i = 0; i < task.tokens.size(); ++i)
      rows[next++] = {task.logits + i * std::size_t(task.stride), task.vocabulary, task.tokens[i],
                      task.top};
  PACELINE_CUDA_CHECK(
      kernels::score(queue("score"), rows.device, int(count), results.host, tasks[0].vocabulary));
  results_.emplace_back([tasks, results] {
    std::size_t row = 0;
    for (ScoreTask& task : tasks) {
      task.logprobs.clear();
      for (const TokenId token : task.tokens)
        task.logprobs.push_back(logprob_of(results[row++], token));
    }
  });
}

} // namespace paceline::gpu::cuda
