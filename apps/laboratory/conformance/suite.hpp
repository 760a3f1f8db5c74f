// Runs the checks.
#pragma once

#include "apps/laboratory/conformance/subject.hpp"

#include <functional>

namespace paceline::apps::conformance {

struct Outcome {
  Check check;
  Finding finding;
  double seconds = 0; ///< What it took.
};

/// Returns the checks of these groups, or with these paths ("ends/stop"); all if `only` is empty.
/// Errors: there is none of a name.
Result<Checks> chosen_checks(const std::vector<std::string>& only);

/// Returns the groups' names.
std::vector<std::string> group_names();

/// Runs the checks in their order. progress: called before each, with how many are done. Ends early
/// if the subject is stopped; what was not decided until then is left out.
std::vector<Outcome> run_checks(Subject& subject, const Checks& checks,
                                const std::function<void(const Check&, std::size_t)>& progress);

/// Counts the outcomes with a verdict.
int count_of(const std::vector<Outcome>& outcomes, Verdict verdict);

} // namespace paceline::apps::conformance
