// Verification rules: which drafted tokens the target keeps, and what follows them.
#pragma once

#include "paceline/drafter.hpp"
#include "sampling/philox.hpp"
#include "sampling/warp.hpp"

#include <cstdint>
#include <span>

namespace paceline::sampling {

/// Rules of docs/theory.md; `automatic` is resolved before anything is drawn.
using Rule = VerifyRule;

/// Replaces `automatic`: by `coupled` when the request named a seed, else by `rejection`.
Rule resolve(VerifyRule rule, bool seed_given);

// Every draw returns -1 if no mass is positive, as there is no distribution then.

/// Draws one token from a distribution, by inversion of its cumulative sum in id order.
/// probabilities: [vocabulary], f32, need not be normalised. A token of probability zero is never
/// drawn.
TokenId draw(std::span<const float> probabilities, const DrawKey& key);

/// Returns the argmax of log p + Gumbel noise of (seed, choice, position, token), where p > 0.
TokenId draw_coupled(std::span<const float> probabilities, const DrawKey& key);

/// The noise of one answer, named by the request's seed and the number of the answer.
struct Noise {
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;
  DrawKey key(std::uint32_t position, Purpose purpose, std::uint32_t attempt = 0) const {
    return {seed, choice, position, attempt, purpose};
  }
};

/// Makes the draft's draw from its row q for `position`, under `rule`. It is a pure function, so
/// that the verifier can repeat it and find out a draft that lies. attempt: see DrawKey.
TokenId propose(Rule rule, std::span<const float> q, const Noise& noise, std::uint32_t position,
                std::uint32_t attempt);

/// Draws from a sparse q: tokens, each given once, whose weights are positive or zero and need not
/// be normalised.
TokenId propose(Rule rule, std::span<const TokenWeight> q, const Noise& noise,
                std::uint32_t position, std::uint32_t attempt);

/// Returns whether the row is a distribution and `propose` draws `token` from it. A draft that lies
/// may show any row.
bool is_draw(TokenId token, Rule rule, std::span<const float> q, const Noise& noise,
             std::uint32_t position, std::uint32_t attempt);

/// Makes the target's draw where nothing is judged (bonus token or plain decoding).
TokenId follow(Rule rule, std::span<const float> p, const Noise& noise, std::uint32_t position);

struct Judgement {
  bool accepted = false;
  TokenId token = 0; ///< The proposed token if accepted, else the one that takes its place, or -1.
};

/// Judges one drafted token.
/// p: [vocabulary], the target's warped row; q: [vocabulary], the draft's, read by `rejection`
/// only. A token outside the vocabulary is rejected. `rejection` accepts with probability
/// min(1, p/q), strictly (Leviathan et al. 2022, algorithm 1); `coupled` and `match` accept when
/// the token equals the target's own draw.
Judgement judge(Rule rule, std::span<const float> p, std::span<const float> q, TokenId token,
                const Noise& noise, std::uint32_t position);

} // namespace paceline::sampling
