// Verification rules: which drafted tokens the target keeps, and what follows them.
#pragma once

#include "paceline/drafter.hpp"
#include "sampling/philox.hpp"
#include "sampling/warp.hpp"

#include <cstdint>
#include <span>

namespace paceline::sampling {

/// The rules of docs/theory.md; `automatic` is resolved before anything is drawn.
using Rule = VerifyRule;

/// `automatic` becomes `coupled` when the request named a seed, else `rejection`.
Rule resolve(VerifyRule rule, bool seed_given);

// Every draw is -1 where no mass is positive: what has no distribution has no token.

/// One token from a distribution, by inversion of its cumulative sum in id order.
/// probabilities: [vocabulary], f32, need not be normalised. A token of probability zero is never
/// drawn.
TokenId draw(std::span<const float> probabilities, const DrawKey& key);

/// argmax over tokens with mass of log p + Gumbel noise of (seed, choice, position, token).
TokenId draw_coupled(std::span<const float> probabilities, const DrawKey& key);

/// Who draws or judges: (seed, choice) of a request.
struct Noise {
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;
  DrawKey key(std::uint32_t position, Purpose purpose, std::uint32_t attempt = 0) const {
    return {seed, choice, position, attempt, purpose};
  }
};

/// The draft's own draw from its row q for `position`, under `rule`. A pure function, so that the
/// verifier can repeat it (a draft that lies is found out). attempt: see DrawKey.
TokenId propose(Rule rule, std::span<const float> q, const Noise& noise, std::uint32_t position,
                std::uint32_t attempt);

/// The same where q is sparse: tokens that each stand there once, with weights as `draw` wants
/// them.
TokenId propose(Rule rule, std::span<const TokenWeight> q, const Noise& noise,
                std::uint32_t position, std::uint32_t attempt);

/// Whether `token` is what `propose` draws from the row shown, and that row a distribution at all:
/// a draft that lies may show anything.
bool is_draw(TokenId token, Rule rule, std::span<const float> q, const Noise& noise,
             std::uint32_t position, std::uint32_t attempt);

/// The target's draw for a position at which nothing is judged (bonus token or plain decoding).
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
