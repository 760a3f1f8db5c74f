// The faults that the suite must find, a row each.
#pragma once

#include "tests/conformance/faulty_proxy.hpp"

#include <vector>

namespace paceline::testing {

/// What goes wrong in the fields of greedy answers, their ends and their log-probabilities.
std::vector<Fault> answer_faults();
/// What goes wrong with what is asked for: sampling, warping, seeds, forms, manners.
std::vector<Fault> request_faults();

} // namespace paceline::testing
