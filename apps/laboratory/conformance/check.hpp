// What the suite asks of a server, and what comes of it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::conformance {

class Subject;

enum class Verdict {
  pass,
  fail,
  not_supported, ///< The server does not offer what is asked for, and says or shows so.
  not_decidable, ///< The answers do not tell; the evidence says what would.
};

/// Returns "pass", "fail", "not supported" or "not decidable".
std::string_view name_of(Verdict verdict);

struct Finding {
  Verdict verdict = Verdict::pass;
  std::string evidence; ///< What was seen, on one line.
  std::string curl;     ///< A command that shows it; empty: nothing was asked.
};

struct Check {
  std::string group;
  std::string name;    ///< Unique within its group.
  std::string promise; ///< What a server that passes does.
  std::function<Finding(Subject&)> run;

  /// Returns "group/name".
  std::string path() const { return group + "/" + name; }
};

using Checks = std::vector<Check>;

/// The groups, a source file each.
void add_distribution(Checks& checks);
void add_equality(Checks& checks);
void add_warping(Checks& checks);
void add_ends(Checks& checks);
void add_logprobs(Checks& checks);
void add_seeds(Checks& checks);
void add_manners(Checks& checks);
void add_structure(Checks& checks);

/// Returns all checks, group by group.
Checks all_checks();

/// The whole suite alarms falsely with at most this probability. At most `statistical_max` of its
/// decisions are statistical (a test counts them), and each takes an equal part.
inline constexpr double false_alarm_of_all = 1e-6;
inline constexpr int statistical_max = 100;
inline constexpr double false_alarm = false_alarm_of_all / statistical_max;
/// The bias whose power is stated: this share of all draws is the likeliest token instead.
inline constexpr double bias = 0.05;

} // namespace paceline::apps::conformance
