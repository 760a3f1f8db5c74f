// Seeds of several answers to one request.
#pragma once

#include "sampling/philox.hpp"

namespace paceline::sampling {

/// Returns the seed of answer `choice`: the request's own for the first, and for each other a seed
/// of its own, of 53 bits (what every reader of JSON keeps), by which that answer can be asked for
/// alone.
inline std::uint64_t choice_seed(std::uint64_t seed, std::uint32_t choice) {
  if (choice == 0)
    return seed;
  constexpr std::uint32_t no_purpose = 7; // the Purpose of no draw
  const PhiloxBlock block =
      philox({{choice, 0, 0, no_purpose}}, std::uint32_t(seed), std::uint32_t(seed >> 32));
  return (std::uint64_t(block.word[0]) << 21) ^ (block.word[1] >> 11);
}

} // namespace paceline::sampling
