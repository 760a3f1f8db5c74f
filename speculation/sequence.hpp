// What all actors know of a sequence: its name, its committed tokens, its fixed settings.
#pragma once

#include "paceline/request.hpp"
#include "sampling/rules.hpp"
#include "sampling/warp.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::speculation {

using SequenceId = std::uint64_t;

/// Minted only by the scheduler and never used twice; what carries an older one is stale.
struct Epoch {
  std::uint32_t incarnation = 0; ///< Of the scheduler.
  std::uint64_t counter = 0;
  friend auto operator<=>(const Epoch&, const Epoch&) = default; // NOLINT(modernize-use-nullptr)
};

/// The committed tokens of one sequence: append-only with a fixed capacity, so that a message which
/// names (log, length) is as immutable as a copy. Threads: one writer, any readers of a prefix they
/// were told of.
class TokenLog {
public:
  TokenLog(std::span<const TokenId> prompt, std::size_t capacity)
      : tokens_(std::make_unique<TokenId[]>(capacity)), capacity_(capacity) {
    append(prompt);
  }
  void append(std::span<const TokenId> more) {
    const std::size_t size = size_.load(std::memory_order_relaxed);
    assert(size + more.size() <= capacity_);
    std::copy(more.begin(), more.end(), tokens_.get() + size);
    size_.store(size + more.size(), std::memory_order_release);
  }
  int size() const { return int(size_.load(std::memory_order_acquire)); }
  std::span<const TokenId> first(int count) const {
    assert(count <= size());
    return {tokens_.get(), std::size_t(count)};
  }

private:
  std::unique_ptr<TokenId[]> tokens_;
  std::size_t capacity_;
  std::atomic<std::size_t> size_{0};
};
using TokenLogRef = std::shared_ptr<TokenLog>;
using TokenLogView = std::shared_ptr<const TokenLog>;

/// Fixed for a sequence's life.
struct SequenceSpec {
  SequenceId id = 0;
  int prompt_tokens = 0;
  int max_tokens = 0;               ///< Output tokens, at least 1 (0: score the prompt only).
  std::vector<TokenId> end_of_text; ///< Empty when the request ignores them.
  sampling::Warping warping;
  sampling::Rule rule = sampling::Rule::rejection; ///< Never `automatic`.
  sampling::Noise noise;
  int top_logprobs = -1; ///< -1: no log-probabilities wanted.
  LogprobsMode logprobs_mode = LogprobsMode::raw;
  bool prompt_logprobs = false;
  SpeculationMode speculation = SpeculationMode::automatic;
  int window = 0;           ///< Fixed K; 0: the policy's.
  bool model_drafts = true; ///< Where a look-up drafts beside a model: the request takes either.
  bool lookup_drafts = true;
  std::string draft_scope; ///< As Request has them.
  std::string cache_salt;

  int priority = 0;                    ///< The lesser goes first, where priorities count.
  std::uint64_t client = 0;            ///< Whose share it counts against,
  int client_weight = 1;               ///< and how large that is.
  std::chrono::nanoseconds deadline{}; ///< From its arrival; 0: none.

  /// What judges: greedy decoding is the limit of all rules, and `match` needs no q.
  sampling::Rule judged_by() const { return warping.greedy() ? sampling::Rule::match : rule; }
  bool needs_q() const { return judged_by() == sampling::Rule::rejection; }
};
using SequenceSpecRef = std::shared_ptr<const SequenceSpec>;

} // namespace paceline::speculation
