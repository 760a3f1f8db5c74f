#include "apps/laboratory/bench/compare.hpp"

#include "apps/console/output.hpp"
#include "models/checkpoint/files.hpp"

#include <fmt/format.h>
#include <functional>
#include <map>
#include <utility>

namespace paceline::apps {
namespace {

constexpr const char* compared[] = {"machine", "steps", "sampler_microseconds_per_row", "modes",
                                    "ratios"};

using Visit = std::function<void(const std::string&, double)>;

/// Calls visit("a.b", number) for every number below `value`, in the report's order.
void walk(const std::string& path, const boost::json::value& value, const Visit& visit) {
  if (value.is_number())
    return visit(path, value.to_number<double>());
  if (const auto* object = value.if_object())
    for (const auto& [key, inner] : *object)
      walk(path + "." + std::string(key), inner, visit);
}

void walk_report(const boost::json::object& report, const Visit& visit) {
  for (const char* part : compared)
    if (const auto* value = report.if_contains(part))
      walk(part, *value, visit);
}

/// Calls both(path, before, now) for every number that both have.
void walk_both(const boost::json::object& before, const boost::json::object& now,
               const std::function<void(const std::string&, double, double)>& both) {
  std::map<std::string, double> earlier;
  walk_report(before, [&](const std::string& path, double value) { earlier[path] = value; });
  walk_report(now, [&](const std::string& path, double value) {
    if (const auto at = earlier.find(path); at != earlier.end())
      both(path, at->second, value);
  });
}

/// Returns the report's look-ups; none in reports older than this field.
boost::json::object lookups_of(const boost::json::object& report) {
  const auto* workload = report.if_contains("workload");
  const auto* facts = workload ? workload->if_object() : nullptr;
  const auto* lookups = facts ? facts->if_contains("lookups") : nullptr;
  return lookups && lookups->is_object() ? lookups->get_object() : boost::json::object();
}

constexpr const char* other_lookups =
    "Look-ups had not seen the same, or the earlier report does not say (workload.lookups): only\n"
    "figures of plain decoding can be compared.\n";

} // namespace

Result<boost::json::object> read_report(const std::string& path) {
  auto report = models::read_json_object(path);
  if (!report || !report->contains("modes"))
    return fail(report ? ErrorCode::corrupt : report.error().code,
                report ? path + " is no report of a benchmark" : report.error().message,
                "give a file that paceline bench --json wrote");
  return report;
}

boost::json::object compare_reports(const boost::json::object& before,
                                    const boost::json::object& now) {
  boost::json::object ratios;
  walk_both(before, now, [&](const std::string& path, double was, double is) {
    if (was != 0)
      ratios[path] = is / was;
  });
  return ratios;
}

bool same_lookups(const boost::json::object& before, const boost::json::object& now) {
  return lookups_of(before) == lookups_of(now);
}

std::string comparison_text(const boost::json::object& before, const boost::json::object& now) {
  Table table({"figure", "before", "now", "now / before"});
  walk_both(before, now, [&](const std::string& path, double was, double is) {
    table.add({path, fmt::format("{:.4g}", was), fmt::format("{:.4g}", is),
               was != 0 ? fmt::format("{:.3f}", is / was) : "-"});
  });
  return table.text() + (same_lookups(before, now) ? "" : "\n" + std::string(other_lookups));
}

} // namespace paceline::apps
