// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
// easy as 1, 2, 3"). Header only, so that device kernels compile the same source.
#pragma once

#include "base/host_device.hpp"

#include <cmath>
#include <cstdint>

namespace paceline::sampling {

/// What a random number is for. No two purposes share noise, except that `coupled` draft and
/// target draws are the same draw on purpose.
enum class Purpose : std::uint32_t { draft, accept, residual, target, coupled };

/// The name of one draw. `position` is the index in the sequence (prompt included) of the token
/// that is drawn or judged. `attempt` names the chain that a draft's draw belongs to, by the length
/// of the frontier after which the chain began and the number of its fork (0: none); it is 0 for
/// all other purposes. So a position that is drafted again after a rejection gets fresh noise, and
/// every run of the same rounds gets the same numbers.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;
  std::uint32_t position = 0;
  std::uint32_t attempt = 0;
  Purpose purpose = Purpose::target;
};

struct PhiloxBlock {
  std::uint32_t word[4];
};

inline constexpr int philox_rounds = 10;
inline constexpr std::uint32_t philox_m0 = 0xD2511F53u; ///< Multipliers of words 0 and 2.
inline constexpr std::uint32_t philox_m1 = 0xCD9E8D57u;
inline constexpr std::uint32_t philox_w0 = 0x9E3779B9u; ///< Increments of the key per round.
inline constexpr std::uint32_t philox_w1 = 0xBB67AE85u;

/// Applies ten rounds of Philox4x32 to (counter, key).
PACELINE_HOST_DEVICE inline PhiloxBlock philox(PhiloxBlock counter, std::uint32_t key0,
                                               std::uint32_t key1) {
  for (int round = 0; round < philox_rounds; ++round) {
    const std::uint64_t p0 = std::uint64_t(philox_m0) * counter.word[0];
    const std::uint64_t p1 = std::uint64_t(philox_m1) * counter.word[2];
    counter = PhiloxBlock{{std::uint32_t(p1 >> 32) ^ counter.word[1] ^ key0, std::uint32_t(p1),
                           std::uint32_t(p0 >> 32) ^ counter.word[3] ^ key1, std::uint32_t(p0)}};
    key0 += philox_w0;
    key1 += philox_w1;
  }
  return counter;
}

/// Returns the counter of a draw, made of index, position, attempt, choice and purpose. index: a
/// token's id / 4 for the noise of `coupled`, else 0.
PACELINE_HOST_DEVICE inline PhiloxBlock noise_counter(const DrawKey& key, std::uint32_t index) {
  return {{index, key.position, key.attempt, (key.choice << 3) | std::uint32_t(key.purpose)}};
}

/// Returns the block of four words for `key` and `index`; the seed is Philox's key.
PACELINE_HOST_DEVICE inline PhiloxBlock noise(const DrawKey& key, std::uint32_t index = 0) {
  return philox(noise_counter(key, index), std::uint32_t(key.seed), std::uint32_t(key.seed >> 32));
}

/// Returns a uniform number in [0, 1) with 53 bits.
PACELINE_HOST_DEVICE inline double uniform(const DrawKey& key) {
  const PhiloxBlock b = noise(key);
  const std::uint64_t bits = (std::uint64_t(b.word[0]) << 21) ^ (b.word[1] >> 11);
  return double(bits) * 0x1p-53;
}

/// Returns a token's exponential number with mean 1; each word of a block serves one token. Small
/// values decide races between tokens, so they get 64 bits: the draw is right for tokens of any
/// probability.
PACELINE_HOST_DEVICE inline double exponential(const DrawKey& key, std::uint32_t token) {
  const std::uint32_t word = noise(key, token / 4).word[token % 4];
  double v = double(word);
  if (word < (1u << 16)) {
    DrawKey finer = key;
    finer.attempt = ~key.attempt;
    v += (double(noise(finer, token / 4).word[token % 4]) + 0.5) * 0x1p-32;
  } else {
    v += 0.5;
  }
  return -std::log1p(-v * 0x1p-32);
}

} // namespace paceline::sampling
