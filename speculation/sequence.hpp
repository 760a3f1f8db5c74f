// The parts of a sequence that all actors know: its name, its committed tokens, its fixed settings.
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
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::speculation {

using SequenceId = std::uint64_t;

/// Only the scheduler issues epochs, and none twice; whatever carries an older one is stale.
struct Epoch {
  std::uint32_t incarnation = 0; ///< Incarnation of the scheduler.
  std::uint64_t counter = 0;
  friend auto operator<=>(const Epoch&, const Epoch&) = default; // NOLINT(modernize-use-nullptr)
};

/// The committed tokens of one sequence: append-only with a fixed capacity, so that a message which
/// names (log, length) is as immutable as a copy. Threads: one writer, and any readers of a prefix
/// that they were told of.
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

/// The settings that are fixed for a sequence's life.
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
  bool model_drafts = true; ///< The request takes the model's drafts, if a look-up drafts too.
  bool lookup_drafts = true;
  bool form_drafts = true; ///< The request takes what `Warping::constraint` says comes next.
  std::string draft_scope; ///< This and `cache_salt` are as in Request.
  std::string cache_salt;

  int priority = 0;         ///< The smaller value goes first, where priorities count.
  std::uint64_t client = 0; ///< Client whose share the sequence counts against.
  int client_weight = 1;    ///< Weight of that client's share.
  std::optional<std::chrono::nanoseconds> deadline; ///< Time allowed from its arrival.

  /// Returns the rule that judges: greedy decoding is the limit of all rules, and `match` needs no
  /// q.
  sampling::Rule judged_by() const { return warping.greedy() ? sampling::Rule::match : rule; }
  bool needs_q() const { return judged_by() == sampling::Rule::rejection; }
};
using SequenceSpecRef = std::shared_ptr<const SequenceSpec>;

} // namespace paceline::speculation
