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
/// bias, masks (allowed tokens, the constraint, tokens held back), repetition penalty, presence and
/// frequency penalties, temperature, top-k, top-p, min-p.
struct Warping {
  float temperature = 0; ///< 0: all mass is on the likeliest token (the lowest id among equals).
  int top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> allowed{};   ///< All others are impossible; empty: all are allowed.
  std::vector<TokenId> held_back{}; ///< Impossible until the output has `min_tokens`.
  int min_tokens = 0;
  std::shared_ptr<const Constraint> constraint{}; ///< The form of the whole output; null: any form.

  bool greedy() const { return temperature == 0; }
  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  /// Returns whether the logits of some row at least may differ from the model's.
  bool adjusts() const {
    return !logit_bias.empty() || !allowed.empty() || min_tokens > 0 || constraint ||
           has_penalties();
  }
};

/// What penalties, `min_tokens` and the constraint look at. They are pure functions of the
/// committed tokens and the window's prefix and keep no counter, so that a rejected token leaves no
/// mark.
struct History {
  std::span<const TokenId> committed; ///< Prompt, then output.
  std::size_t prompt_tokens = 0;      ///< How many of `committed` are the prompt.
  std::span<const TokenId> prefix;    ///< Window tokens before the row's position; output, too.

  std::size_t output() const { return committed.size() - prompt_tokens + prefix.size(); }
};

/// Returns the tokens of `held_back` that are impossible after so many output tokens. mask: the
/// constraint's, empty without one. If it allows only tokens of `held_back`, the form is complete,
/// so none is impossible and the answer may end before `min_tokens`.
std::span<const TokenId> held_back(const Warping& warping, std::size_t output,
                                   std::span<const std::uint32_t> mask);

/// Scratch of one thread, which grows to the vocabulary's size once and is reused.
struct WarpScratch {
  std::vector<float> logits;         ///< Logits with bias, masks and penalties.
  std::vector<std::uint32_t> counts; ///< How often a token is in the output; zero between calls.
  Candidates candidates;
  TokenMask mask; ///< The constraint's mask.
};

/// Returns the logits with bias, masks and penalties but without padding, by which tokens rank: the
/// row itself if nothing changes it, else a copy in `scratch`. logits: [row], f32.
std::span<const float> adjusted(std::span<const float> logits, int vocabulary,
                                const Warping& warping, const History& history,
                                WarpScratch& scratch);

/// Computes the warped distribution of one row.
/// logits: [row], f32; probabilities: [row], f32, sums to 1 up to rounding. Ids from `vocabulary`
/// on are padding and get probability 0. It is a pure function of the row, the warping and the
/// history. A logit (or bias) of -infinity makes a token impossible; +infinity counts as the
/// greatest finite logit. Top-k and top-p rank by logit, the lower id first among equals
/// (nucleus.hpp); min-p keeps tokens of at least that share of the likeliest one's probability. Ids
/// in history, bias and masks that are outside the vocabulary are ignored.
/// Returns false, with `probabilities` unspecified, when the logits hold NaN or nothing above
/// -infinity (a model that failed).
[[nodiscard]] bool warp(std::span<const float> logits, int vocabulary, const Warping& warping,
                        const History& history, WarpScratch& scratch,
                        std::span<float> probabilities);

/// Returns the natural log-probability of `token` and of the `top` likeliest tokens of one row, in
/// softmax(logits) over the vocabulary or, with `_warped`, in the warped distribution.
TokenLogprob logprob_of(std::span<const float> logits, int vocabulary, TokenId token, int top);
TokenLogprob logprob_of_warped(std::span<const float> probabilities, TokenId token, int top);

} // namespace paceline::sampling
