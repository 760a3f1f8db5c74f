// Answers that should be the same.
#pragma once

#include "apps/laboratory/conformance/subject.hpp"

namespace paceline::apps::conformance {

/// Rounding may choose either of two tokens that are as near as this, in nats: numbers of 16 bits
/// around 16 are 0.06 (bf16: 0.125) apart.
inline constexpr double near_tie = 0.15;

/// Compares greedy answers in pairs, by text and reason of the end. Where texts part the server is
/// asked for log-probabilities of both: it is a fault unless both lists have a near tie there.
/// how: what is different about the second ones.
Finding same_answers(Subject& subject, const std::vector<Answer>& reference,
                     const std::vector<Answer>& others, const std::string& how);

/// Returns how many bytes two texts begin with alike.
std::size_t common_bytes(std::string_view one, std::string_view other);

/// Returns what a check says that needs the server without speculation.
Finding no_twin();

} // namespace paceline::apps::conformance
