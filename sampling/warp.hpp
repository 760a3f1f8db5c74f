// Warpers: from a row of logits to the distribution that is sampled.
#pragma once

#include "paceline/event.hpp"
#include "paceline/request.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace paceline::sampling {

/// A request's sampling with every default filled in. The order of application is fixed: logit
/// bias, repetition penalty, presence and frequency penalties, temperature, top-k, top-p, min-p.
struct Warping {
  float temperature = 0; ///< 0: all mass on the likeliest token (the lowest id among equals).
  int top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;

  bool greedy() const { return temperature == 0; }
  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
};

/// What penalties look at: a pure function of the committed tokens and the window's prefix, never
/// a counter that is changed in place (a rejected token leaves no mark).
struct History {
  std::span<const TokenId> committed; ///< Prompt, then output.
  std::size_t prompt_tokens = 0;      ///< How many of `committed` are the prompt.
  std::span<const TokenId> prefix;    ///< Window tokens before the row's position; output too.
};

/// Scratch of one thread; grows to the vocabulary's size once and is reused.
struct WarpScratch {
  std::vector<float> logits;
  std::vector<float> selection;
  std::vector<std::uint32_t> counts;
};

/// The warped distribution of one row.
/// logits: [row], f32; probabilities: [row], f32, sums to 1 up to rounding. Ids from `vocabulary`
/// on are padding and get probability 0. Returns false, with `probabilities` unspecified, when
/// the logits hold NaN or no finite value (a model that failed).
[[nodiscard]] bool warp(std::span<const float> logits, int vocabulary, const Warping& warping,
                        const History& history, WarpScratch& scratch,
                        std::span<float> probabilities);

/// Natural log-probability of `token`, and of the `top` likeliest tokens, of one row.
/// raw: of softmax(logits) over the vocabulary; processed: of the warped distribution.
TokenLogprob logprob_of(std::span<const float> logits, int vocabulary, TokenId token, int top);
TokenLogprob logprob_of_warped(std::span<const float> probabilities, TokenId token, int top);

} // namespace paceline::sampling
