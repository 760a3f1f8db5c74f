// The arithmetic of the verification rules, one token at a time. Header only and free of
// containers, so that device kernels compile the same source.
#pragma once

#include "sampling/philox.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::sampling {

/// Accepts with probability min(1, p/q) (Leviathan et al. 2022, algorithm 1). The comparison is
/// strict, so that a token with p = 0 is rejected even when u = 0.
PACELINE_HOST_DEVICE inline bool accepts(double u, float p, float q) {
  return u * double(q) < double(p);
}

/// Returns a token's mass in the residual norm(max(0, p - q)), before normalising.
PACELINE_HOST_DEVICE inline float residual(float p, float q) {
  return p > q ? p - q : 0.0f;
}

/// Returns a token's score in a Gumbel-max draw, written as a race of exponentials: with g = -log
/// E, the argmax of log p + g is the argmin of E / p. p must be positive.
PACELINE_HOST_DEVICE inline double gumbel_score(const DrawKey& key, std::uint32_t token, float p) {
  return exponential(key, token) / double(p);
}

inline constexpr std::size_t inversion_block = 512;

/// The end of a draw by inversion: the block from token `first` on (if that is beyond the row,
/// there is no mass), whose tokens take the sum from `below` beyond `goal`.
struct InversionEnd {
  std::size_t first;
  double below;
  double goal;
};

/// Finds the block in which the cumulative sum exceeds u times the total. row.sum(first, count):
/// the weight of a block, positive if that of a token is. u: in [0, 1).
template <class Row>
PACELINE_HOST_DEVICE InversionEnd find_block(const Row& row, std::size_t size, double u) {
  const auto count = [size](std::size_t first) {
    return size - first < inversion_block ? size - first : inversion_block;
  };
  double total = 0;
  for (std::size_t first = 0; first < size; first += inversion_block)
    total += row.sum(first, count(first));

  const double goal = u * total;
  double below = 0;
  double reached = 0;
  std::size_t chosen = size;
  for (std::size_t first = 0; first < size && reached <= goal; first += inversion_block) {
    const double block = row.sum(first, count(first));
    if (!(block > 0))
      continue;
    chosen = first;
    below = reached;
    reached += block;
  }
  return {chosen, below, goal};
}

/// Finds the token in the block. row.weight(i): the weight of one token. A token of weight zero is
/// never drawn: where rounding leaves the goal out of reach, the last token with mass is. Returns
/// -1 when there is no mass.
template <class Row>
PACELINE_HOST_DEVICE std::int32_t find_token(const Row& row, std::size_t size, InversionEnd end) {
  std::int32_t token = -1;
  double below = end.below;
  for (std::size_t i = end.first; i < size && i < end.first + inversion_block && below <= end.goal;
       ++i) {
    if (!(row.weight(i) > 0))
      continue;
    token = std::int32_t(i);
    below += double(row.weight(i));
  }
  return token;
}

/// Draws by inversion of the cumulative sum in id order: returns the first token at which the sum
/// exceeds u times the total. Sums are taken block by block, so that whole blocks are skipped
/// quickly.
template <class Row>
PACELINE_HOST_DEVICE std::int32_t invert(const Row& row, std::size_t size, double u) {
  return find_token(row, size, find_block(row, size, u));
}

} // namespace paceline::sampling
