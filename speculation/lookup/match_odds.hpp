// Learns how often a match is right about the token that comes next.
#pragma once

#include "speculation/estimates.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace paceline::speculation {

/// The odds of one text's matches, by their length (1, 2 and 3, 4 to 7, ...) and by whether one
/// token alone has come behind them. They are learned from every committed token, whether or not
/// something was drafted in its place, so that it costs nothing to find out when matches are worth
/// something again.
class MatchOdds {
public:
  MatchOdds() {
    for (std::size_t i = 0; i < classes; ++i)
      for (const bool alone : {false, true})
        at(i, alone).add(prior[i], prior_weight, memory);
  }
  /// Returns the chance that the likeliest token behind a match comes next. length: at least 1.
  double right(int length, bool alone) const { return at(class_of(length), alone).value; }
  void observe(int length, bool alone, bool was_right) {
    at(class_of(length), alone).add(was_right ? 1 : 0, 1, memory);
  }

private:
  static constexpr std::size_t classes = 6;
  static constexpr std::array<double, classes> prior{0.1, 0.25, 0.5, 0.75, 0.9, 0.95};
  static constexpr double prior_weight = 4;
  static constexpr double memory = 32; // tokens behind matches of a class

  static std::size_t class_of(int length) {
    return std::min(classes, std::size_t(std::bit_width(unsigned(length)))) - 1;
  }
  FadingMean& at(std::size_t i, bool alone) { return means_[2 * i + std::size_t(alone)]; }
  const FadingMean& at(std::size_t i, bool alone) const {
    return means_[2 * i + std::size_t(alone)];
  }

  std::array<FadingMean, 2 * classes> means_;
};

} // namespace paceline::speculation
