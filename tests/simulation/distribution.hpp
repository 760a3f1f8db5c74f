// What is drawn while actors die.
#pragma once

#include "tests/support/statistics.hpp"

#include <string>
#include <vector>

namespace paceline::testing {

/// One case of tests/exactness, with kills.
struct Fit {
  std::string name;
  int outputs = 0; ///< Short ones, of 4 to 7 tokens.
  int kills = 0;
  ChiSquare chi_square; ///< Of the joint sequences against the target's probabilities.
  int all = 0;          ///< Outputs of all cases together.

  std::string text() const;
};

/// `rejection` in every case of tests/exactness, at least `outputs` in all, while actors die at
/// moments that are drawn beforehand, and so have nothing to do with values. Runs on two threads.
std::vector<Fit> rejection_under_kills(int outputs);

} // namespace paceline::testing
