#include "apps/laboratory/conformance/suite.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::apps::conformance {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
  case Verdict::pass: return "pass";
  case Verdict::fail: return "fail";
  case Verdict::not_supported: return "not supported";
  case Verdict::not_decidable: return "not decidable";
  }
  return "";
}

Checks all_checks() {
  Checks checks;
  for (const auto add : {add_equality, add_ends, add_logprobs, add_warping, add_seeds,
                         add_structure, add_manners, add_distribution})
    add(checks);
  return checks;
}

std::vector<std::string> group_names() {
  std::vector<std::string> names;
  for (const Check& check : all_checks())
    if (std::ranges::find(names, check.group) == names.end())
      names.push_back(check.group);
  return names;
}

Result<Checks> chosen_checks(const std::vector<std::string>& only) {
  const Checks all = all_checks();
  Checks chosen;
  for (const std::string& name : only)
    if (std::ranges::none_of(
            all, [&](const Check& check) { return name == check.group || name == check.path(); }))
      return fail(ErrorCode::invalid_argument, fmt::format("there is no group or check {}", name),
                  fmt::format("--only takes {}, or one check such as {}",
                              fmt::join(group_names(), ", "), all.front().path()));
  for (const Check& check : all)
    if (only.empty() || std::ranges::any_of(only, [&](const std::string& name) {
          return name == check.group || name == check.path();
        }))
      chosen.push_back(check);
  return chosen;
}

std::vector<Outcome> run_checks(Subject& subject, const Checks& checks,
                                const std::function<void(const Check&, std::size_t)>& progress) {
  std::vector<Outcome> outcomes;
  for (const Check& check : checks) {
    if (progress)
      progress(check, outcomes.size());
    const auto began = std::chrono::steady_clock::now();
    Finding finding = check.run(subject);
    if (subject.stopped())
      break;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    outcomes.push_back({check, std::move(finding), took.count()});
  }
  return outcomes;
}

int count_of(const std::vector<Outcome>& outcomes, Verdict verdict) {
  return int(std::ranges::count_if(
      outcomes, [&](const Outcome& one) { return one.finding.verdict == verdict; }));
}

} // namespace paceline::apps::conformance
