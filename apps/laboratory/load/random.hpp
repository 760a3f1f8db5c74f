// The random numbers of a load, a separate sequence for each purpose.
#pragma once

#include <cstdint>
#include <random>

namespace paceline::apps::load {

enum class Draws : std::uint32_t { gaps, lengths, prompts };

/// Returns a generator from which Boost's distributions draw the same on every platform.
inline std::mt19937_64 random_numbers(std::uint64_t seed, Draws purpose) {
  std::seed_seq sequence{std::uint32_t(seed), std::uint32_t(seed >> 32), std::uint32_t(purpose)};
  return std::mt19937_64(sequence);
}

} // namespace paceline::apps::load
