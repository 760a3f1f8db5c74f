// Warpers: from a row of logits to the distribution that is sampled.
#pragma once

#include "paceline/event.hpp"
#include "paceline/request.hpp"
#include "sampling/constraint.hpp"
#include "sampling/nucleus.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace paceline::sampling {

/// A request's sampling with every default filled in. The order of application is fixed: logit
/// bias, what is not allowed, held back or outside the constraint, repetition penalty, presence and
/// frequency penalties, temperature, top-k, top-p, min-p.
struct Warping {
  float temperature = 0; ///< 0: all mass on the likeliest token (the lowest id among equals).
  int top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> allowed{};   ///< Others are impossible; empty: none are.
  std::vector<TokenId> held_back{}; ///< Impossible until the output has `min_tokens`.
  int min_tokens = 0;
  std::shared_ptr<const Constraint> constraint{}; ///< Of the whole output; null: any form.

  bool greedy() const { return temperature == 0; }
  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  /// Whether logits are others than the model's, of some row at least.
  bool adjusts() const {
    return !logit_bias.empty() || !allowed.empty() || min_tokens > 0 || constraint ||
           has_penalties();
  }
};

/// What penalties, `min_tokens` and the constraint look at: a pure function of the committed tokens
/// and the window's prefix, never a counter that is changed in place (a rejected token leaves no
/// mark).
struct History {
  std::span<const TokenId> committed; ///< Prompt, then output.
  std::size_t prompt_tokens = 0;      ///< How many of `committed` are the prompt.
  std::span<const TokenId> prefix;    ///< Window tokens before the row's position; output too.

  std::size_t output() const { return committed.size() - prompt_tokens + prefix.size(); }
};

/// What of `held_back` is impossible behind so many output tokens. mask: of the constraint, empty
/// without one; where it allows nothing else, the form is whole, and ends the answer before its
/// time.
std::span<const TokenId> held_back(const Warping& warping, std::size_t output,
                                   std::span<const std::uint32_t> mask);

/// Scratch of one thread; grows to the vocabulary's size once and is reused.
struct WarpScratch {
  std::vector<float> logits;         ///< With bias, masks and penalties.
  std::vector<std::uint32_t> counts; ///< Of tokens in the output; zero between calls.
  Candidates candidates;
  TokenMask mask; ///< Of the constraint.
};

/// The logits with bias, masks and penalties, padding cut off: what tokens rank by. The row itself
/// where nothing changes it, else a copy in `scratch`. logits: [row], f32.
std::span<const float> adjusted(std::span<const float> logits, int vocabulary,
                                const Warping& warping, const History& history,
                                WarpScratch& scratch);

/// The warped distribution of one row.
/// logits: [row], f32; probabilities: [row], f32, sums to 1 up to rounding. Ids from `vocabulary`
/// on are padding and get probability 0. A pure function of the row, the warping and the history.
/// A logit (or bias) of -infinity makes a token impossible, +infinity counts as the greatest
/// finite logit. Top-k and top-p rank by logit, the lower id first among equals (nucleus.hpp);
/// min-p keeps tokens of at least that share of the likeliest one's probability. Ids in history,
/// bias and masks that are outside the vocabulary are ignored.
/// Returns false, with `probabilities` unspecified, when the logits hold NaN or nothing above
/// -infinity (a model that failed).
[[nodiscard]] bool warp(std::span<const float> logits, int vocabulary, const Warping& warping,
                        const History& history, WarpScratch& scratch,
                        std::span<float> probabilities);

/// Natural log-probability of `token`, and of the `top` likeliest tokens, of one row.
/// raw: of softmax(logits) over the vocabulary; processed: of the warped distribution.
TokenLogprob logprob_of(std::span<const float> logits, int vocabulary, TokenId token, int top);
TokenLogprob logprob_of_warped(std::span<const float> probabilities, TokenId token, int top);

} // namespace paceline::sampling
