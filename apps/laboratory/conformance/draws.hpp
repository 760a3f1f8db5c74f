// Whether tokens were drawn from the distributions that the server reports beside them.
//
// Each draw has a distribution of its own, since each position has. Two tests take all of them.
//
// - The probability integral transform (Rosenblatt 1952) makes them alike: with the tokens in
// falling
//   order of probability, F the probability of those before the drawn one, p its own and v an
//   independent uniform number, F + v p is uniform on [0, 1) whatever came before. The transforms
//   are counted in equal cells and tested by chi-square: any misfit shows, if it is large.
// - The odds of a biased server against an honest one: the product over draws of what either makes
//   of the token. An honest server's odds exceed x with a probability of at most 1 / x (Ville
//   1939): just this bias shows, after few draws.
#pragma once

#include "apps/laboratory/conformance/answer.hpp"
#include "sampling/chi_square.hpp"

#include <array>
#include <random>

namespace paceline::apps::conformance {

/// What a token should have been drawn from, as far as a list of the likeliest tells.
struct Expected {
  std::vector<std::pair<std::string, double>> cells; ///< Probabilities, in falling order.
  /// Probability of all tokens together that are not in `cells`; 0: such a token may not be drawn;
  /// none: it is not known, and the cells are conditional on that the token is one of them.
  std::optional<double> rest;
};

/// What the reported list is of: the model's own distribution, or what is left of it after
/// temperature and the like.
enum class Reported { raw, processed };

/// Makes the list of a position fit to compute with: at most `top` entries (some servers add the
/// drawn token to them, which would make the list depend on it), none that are impossible, none
/// that a name does not tell from others. Returns also whether some were left out for their names.
struct CleanList {
  std::vector<std::pair<std::string, double>> top; ///< Log-probabilities, in falling order.
  bool named = true;                               ///< Every token had a name of its own.
};
CleanList clean_list(const Scored& scored, int top);

/// These return the distribution after a warper alone, at temperature 1 but for the first; none:
/// the list does not tell it at this position (the cut lies behind it, or within rounding).
std::optional<Expected> at_temperature(const CleanList& list, double temperature);
std::optional<Expected> at_top_p(const CleanList& list, double top_p);
std::optional<Expected> at_top_k(const CleanList& list, int top_k);
std::optional<Expected> at_min_p(const CleanList& list, double min_p);

class Transforms {
public:
  explicit Transforms(std::uint64_t seed) : random_(seed) {}

  /// Counts a draw. Returns false if the token was impossible.
  bool add(const Expected& expected, const std::string& drawn);

  int draws() const { return draws_; }
  /// Whether either test finds a fault, or an impossible token came.
  bool wrong() const;
  /// Returns the p-value of chi-square; 0: an impossible token came.
  double p_value() const;
  /// Returns how probably a biased server would have been found out by its odds in so many draws.
  double power(double draws) const;
  double power() const { return power(draws_); }
  /// Returns the draws after which `power` is at least `wanted`.
  double draws_for(double wanted) const;
  /// Returns all of this as evidence.
  std::string text() const;

  static constexpr int cells = 10;

private:
  sampling::ChiSquare chi_square() const;

  std::mt19937_64 random_;
  int draws_ = 0;
  int impossible_ = 0;
  std::array<std::uint64_t, cells> counts_{};
  double log_odds_ = 0; ///< Of a biased server against an honest one.
  double mean_ = 0;     ///< What a biased server's would be.
  double variance_ = 0;
};

} // namespace paceline::apps::conformance
