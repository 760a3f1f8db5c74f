// Draws the random numbers of traffic and of searches, by Philox: the same on every platform.
#pragma once

#include "sampling/philox.hpp"

#include <cstdint>
#include <limits>

namespace paceline::placement {

/// The purposes of draws. Draws of different purposes or streams share no noise.
enum class Draws : std::uint32_t { gaps, periods, moves };

/// A generator for Boost's distributions, which give the same draws everywhere.
class Random {
public:
  using result_type = std::uint32_t;

  Random(std::uint64_t seed, Draws purpose, std::uint32_t stream)
      : seed_(seed), purpose_(std::uint32_t(purpose)), stream_(stream) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  result_type operator()() {
    if (next_ % 4 == 0)
      block_ = sampling::philox(
          {{std::uint32_t(next_ / 4), std::uint32_t(next_ >> 34), stream_, purpose_}},
          std::uint32_t(seed_), std::uint32_t(seed_ >> 32));
    return block_.word[next_++ % 4];
  }

private:
  std::uint64_t seed_;
  std::uint32_t purpose_;
  std::uint32_t stream_;
  std::uint64_t next_ = 0;
  sampling::PhiloxBlock block_{};
};

} // namespace paceline::placement
