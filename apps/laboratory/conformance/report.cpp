#include "apps/laboratory/conformance/report.hpp"

#include "apps/console/screen_text.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <fmt/format.h>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

/// Returns a text as XML has it, without characters that XML has not.
std::string escaped(std::string_view text) {
  std::string all;
  for (const char c : text)
    switch (c) {
    case '&': all += "&amp;"; break;
    case '<': all += "&lt;"; break;
    case '>': all += "&gt;"; break;
    case '"': all += "&quot;"; break;
    default: all += static_cast<unsigned char>(c) < ' ' && c != '\n' ? '?' : c;
    }
  return all;
}

std::string junit_case(const Outcome& one) {
  const char* kind = one.finding.verdict == Verdict::pass   ? nullptr
                     : one.finding.verdict == Verdict::fail ? "failure"
                                                            : "skipped";
  const std::string head = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                                       one.check.group, one.check.name, one.seconds);
  if (!kind)
    return head + "/>\n";
  return fmt::format("{}>\n      <{} message=\"{}\">{}</{}>\n    </testcase>\n", head, kind,
                     escaped(one.finding.evidence), escaped(one.finding.curl), kind);
}

std::string counts_text(const std::vector<Outcome>& outcomes) {
  return fmt::format("{} pass, {} fail, {} not supported, {} not decidable\n",
                     count_of(outcomes, Verdict::pass), count_of(outcomes, Verdict::fail),
                     count_of(outcomes, Verdict::not_supported),
                     count_of(outcomes, Verdict::not_decidable));
}

} // namespace

std::string report_text(const Subject& subject, const std::vector<Outcome>& outcomes) {
  std::string text = fmt::format("conformance of {} at {}\n\n", subject.model(),
                                 subject.facts().at("base_url").as_string().c_str());
  for (const Outcome& one : outcomes) {
    text += fmt::format("{:13}  {:28}  {}\n", name_of(one.finding.verdict), one.check.path(),
                        one.check.promise);
    if (!one.finding.evidence.empty())
      text += fmt::format("{:15}{}\n", "", one.finding.evidence);
    if (one.finding.verdict == Verdict::fail && !one.finding.curl.empty())
      text += fmt::format("{:15}{}\n", "", one.finding.curl);
  }
  return printable(text + "\n" + counts_text(outcomes)); // The server has written much of it.
}

json::object report_json(const Subject& subject, const std::vector<Outcome>& outcomes) {
  json::object object = subject.facts();
  object["seed"] = subject.options().seed;
  object["false_alarm"] = false_alarm_of_all;
  for (const Verdict verdict :
       {Verdict::pass, Verdict::fail, Verdict::not_supported, Verdict::not_decidable}) {
    std::string key(name_of(verdict));
    std::ranges::replace(key, ' ', '_');
    object[key] = count_of(outcomes, verdict);
  }
  auto& checks = object["checks"].emplace_array();
  for (const Outcome& one : outcomes)
    checks.push_back({{"group", one.check.group},
                      {"name", one.check.name},
                      {"promise", one.check.promise},
                      {"verdict", name_of(one.finding.verdict)},
                      {"evidence", one.finding.evidence},
                      {"curl", one.finding.curl},
                      {"seconds", one.seconds}});
  return object;
}

std::string report_junit(const std::vector<Outcome>& outcomes) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const std::string& group : group_names()) {
    std::string cases;
    int tests = 0;
    int failures = 0;
    int skipped = 0;
    for (const Outcome& one : outcomes) {
      if (one.check.group != group)
        continue;
      cases += junit_case(one);
      ++tests;
      failures += one.finding.verdict == Verdict::fail;
      skipped += one.finding.verdict != Verdict::fail && one.finding.verdict != Verdict::pass;
    }
    if (tests > 0)
      text += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n"
                          "{}  </testsuite>\n",
                          group, tests, failures, skipped, cases);
  }
  return text + "</testsuites>\n";
}

} // namespace paceline::apps::conformance
