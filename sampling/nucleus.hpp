// Truncation by rank: top-k and top-p without sorting the row.
//
// Tokens rank by logit, the highest first, the lower id first among equals. top-k keeps the first
// k. top-p (Holtzman et al. 2020) keeps the shortest run of first tokens whose mass reaches the
// share p of what top-k left, including the token that reaches it. Masses are summed exactly
// (row_kernels.hpp), so the tokens that stay depend neither on the algorithm nor on the order.
#pragma once

#include "sampling/row_kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::sampling {

/// The kept tokens of a row in id order, and scratch to choose them. The vectors only grow.
struct Candidates {
  std::size_t count = 0;
  std::vector<float> values; ///< Logits; the first `count` are valid.
  std::vector<std::uint32_t> ids;
  std::vector<float> masses;
  std::vector<float> pool_values[2];
  std::vector<float> pool_masses[2];
};

/// Keeps the k highest of the logits; 0 < k < logits.size().
void keep_top_k(std::span<const float> logits, std::size_t k, Candidates& kept);

/// Keeps the top-p tokens of the whole row.
void keep_top_p(std::span<const float> logits, float top_p, row::Exponential e, Candidates& kept);

/// Keeps the top-p tokens of those that are kept already.
void keep_top_p(float top_p, row::Exponential e, Candidates& kept);

} // namespace paceline::sampling
