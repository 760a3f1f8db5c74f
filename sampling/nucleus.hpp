// Truncation by rank: top-k and top-p without sorting the row.
//
// Tokens rank by logit, the highest first, the lower id first among equals. top-k keeps the first
// k. top-p (Holtzman et al. 2020) keeps the shortest run of first tokens whose mass reaches the
// share p, the token that reaches it included, of what is left after top-k. Masses are summed
// exactly (row_kernels.hpp), so which tokens stay depends on neither algorithm nor order.
#pragma once

#include "sampling/row_kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::sampling {

/// Tokens of a row in id order, and scratch to choose among them. The vectors only grow.
struct Candidates {
  std::size_t count = 0;
  std::vector<float> values; ///< Logits; [count] are valid.
  std::vector<std::uint32_t> ids;
  std::vector<float> masses;
  std::vector<float> pool_values[2];
  std::vector<float> pool_masses[2];
};

/// 0 < k < logits.size().
void keep_top_k(std::span<const float> logits, std::size_t k, Candidates& kept);

/// Of the whole row.
void keep_top_p(std::span<const float> logits, float top_p, row::Exponential e, Candidates& kept);

/// Of what is kept already.
void keep_top_p(float top_p, row::Exponential e, Candidates& kept);

} // namespace paceline::sampling
