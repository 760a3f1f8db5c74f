#include "apps/laboratory/conformance/comparison.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::apps::conformance {
namespace {

/// Asks for the answer again, with log-probabilities, and returns the gap where `other` leaves it.
std::optional<double> gap_of(Subject& subject, const Answer& answer, const std::string& other) {
  if (subject.top() == 0)
    return std::nullopt;
  boost::json::object body = answer.asked;
  body.erase("stream");
  const Answer scored = subject.ask_again(answer, subject.scored(std::move(body)));
  return scored.ok() ? gap_where_left(scored.first(), other) : std::nullopt;
}

struct Parting {
  std::string text; ///< Evidence.
  bool tie = false;
};

Parting describe(Subject& subject, const Answer& reference, const Answer& other,
                 const std::string& how) {
  const std::string& one = reference.text();
  const std::string& two = other.text();
  if (one == two)
    return {fmt::format("{} the answer ends by \"{}\", else by \"{}\"", how,
                        other.first().finish_reason, reference.first().finish_reason)};
  const std::size_t at = common_bytes(one, two);
  Parting parting{fmt::format("{} the answer goes on after {} bytes with {}, else with {}", how, at,
                              excerpt(std::string_view(two).substr(at), 24),
                              excerpt(std::string_view(one).substr(at), 24))};
  const auto here = gap_of(subject, reference, two);
  const auto there = gap_of(subject, other, one);
  parting.tie = here && *here <= near_tie && (!there || *there <= near_tie);
  if (here)
    parting.text += fmt::format("; the log-probabilities are {:.3g} apart there", *here);
  if (there)
    parting.text += fmt::format(", and {:.3g} where they are asked for as the other", *there);
  return parting;
}

} // namespace

std::size_t common_bytes(std::string_view one, std::string_view other) {
  return std::size_t(std::ranges::mismatch(one, other).in1 - one.begin());
}

Finding no_twin() {
  return {
      Verdict::not_decidable,
      "there is nothing to compare with: give --plain-url, or --off with the fields that switch "
      "speculation off",
      ""};
}

Finding same_answers(Subject& subject, const std::vector<Answer>& reference,
                     const std::vector<Answer>& others, const std::string& how) {
  if (auto finding = subject.missing(reference))
    return *finding;
  if (auto finding = subject.missing(others))
    return *finding;
  std::optional<Finding> tie;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const Choice& one = reference[i].first();
    const Choice& other = others[i].first();
    bytes += one.text.size();
    if (one.text == other.text && one.finish_reason == other.finish_reason)
      continue;
    Parting parting = describe(subject, reference[i], others[i], how);
    if (!parting.tie)
      return subject.say(Verdict::fail, std::move(parting.text), others[i]);
    tie = subject.say(Verdict::not_decidable, "a near tie: " + parting.text, others[i]);
  }
  if (tie)
    return *tie;
  return subject.say(Verdict::pass,
                     fmt::format("{} answers of {} bytes, the same {}", others.size(), bytes, how),
                     others.front());
}

} // namespace paceline::apps::conformance
