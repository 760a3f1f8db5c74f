// The arithmetic of the verification rules, one token at a time. Header only and free of the
// standard library's containers, so that device kernels compile the same source.
#pragma once

#include "sampling/philox.hpp"

#include <cmath>
#include <cstdint>

namespace paceline::sampling {

/// Leviathan et al. 2022, algorithm 1: accept with probability min(1, p/q). Strict, so that a
/// token with p = 0 is rejected even when u = 0.
PACELINE_HOST_DEVICE inline bool accepts(double u, float p, float q) {
  return u * double(q) < double(p);
}

/// Mass of a token in the residual norm(max(0, p - q)), before normalising.
PACELINE_HOST_DEVICE inline float residual(float p, float q) {
  return p > q ? p - q : 0.0f;
}

/// A token's score in a Gumbel-max draw, turned into an exponential race: argmax of log p + g is
/// argmin of E/p, where g = -log E and E is exponential. Lower wins; p must be positive.
PACELINE_HOST_DEVICE inline double race_score(const DrawKey& key, std::uint32_t token, float p) {
  return exponential(key, token) / double(p);
}

} // namespace paceline::sampling
