// A trace with a node in it: what both machines did, by one clock.
#include "tests/support/files.hpp"
#include "tests/support/node_checks.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace json = boost::json;
using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

struct Span {
  std::int64_t pid = 0;
  std::string name;
  double begin = 0; ///< Microseconds.
  double end = 0;
};

std::vector<Span> events_of(const json::value& trace) {
  std::vector<Span> events;
  for (const json::value& e : trace.at("traceEvents").as_array()) {
    if (e.at("ph").as_string() != "X")
      continue;
    const double begin = e.at("ts").to_number<double>();
    events.push_back({e.at("pid").to_number<std::int64_t>(), e.at("name").as_string().c_str(),
                      begin, begin + e.at("dur").to_number<double>()});
  }
  return events;
}

Span first(const std::vector<Span>& events, std::int64_t pid, const std::string& name) {
  const Span* first = nullptr;
  for (const Span& e : events)
    if (e.pid == pid && e.name == name && (!first || e.begin < first->begin))
      first = &e;
  REQUIRE_MESSAGE(first, name);
  return *first;
}

std::unique_ptr<nodes::Node> node_ahead(base::Duration clock_ahead) {
  nodes::NodeOptions there;
  there.devices = {"cpu:1"};
  there.clock_ahead = clock_ahead;
  return open_node(there);
}

/// What an engine writes that uses a node, whose clock is so far ahead.
json::value trace_of(EngineOptions options, bool drafts) {
  const TemporaryFolder folder;
  options.threads = 1;
  options.window = 3;
  options.speculation = drafts ? SpeculationMode::sync : SpeculationMode::off;
  options.faults.heartbeat = 200ms;
  options.trace_file = folder.file("trace.json");
  const Request request = repeatable("def", 48);
  const auto expected = without_draft(request);
  Engine engine = open_engine(options);
  ask_until(engine, request, expected,
            [&](const Answer& answer) { return !drafts || drafted(answer); });
  REQUIRE(engine.shutdown(1s));
  return json::parse(read_file(options.trace_file));
}

/// The only one beside the engine's, whose clock the trace knows. Returns its process and how
/// uncertain its times are, at most, in microseconds.
std::pair<std::int64_t, double> check_machine(const json::value& trace, base::Duration ahead) {
  const json::array& machines = trace.at("otherData").at("machines").as_array();
  REQUIRE(machines.size() == 1);
  const json::value& node = machines.front();
  CHECK(node.at("name").as_string().starts_with("node://127.0.0.1:"));
  const double uncertainty = node.at("uncertainty_us").to_number<double>();
  const double most = node.at("uncertainty_max_us").to_number<double>();
  CHECK(uncertainty <= most);
  CHECK(std::abs(node.at("clock_ahead_us").to_number<double>() - 1e6 * base::seconds(ahead)) <=
        uncertainty);
  return {node.at("pid").to_number<std::int64_t>(), most};
}

constexpr std::array<base::Duration, 2> clocks_ahead{3h, -5min};

} // namespace

TEST_CASE("a trace has all machines on one clock, and says how far theirs are") {
  for (const base::Duration ahead : clocks_ahead) {
    CAPTURE(ahead.count());
    const auto there = node_ahead(ahead);
    EngineOptions options;
    options.draft_devices = {address_of(*there)};
    const json::value trace = trace_of(options, true);
    const auto [pid, most] = check_machine(trace, ahead);
    const auto events = events_of(trace);
    const Span pass = first(events, pid, "draft");
    CHECK(pass.begin >= first(events, 1, "frontiers").begin - most); // asked for,
    CHECK(pass.end <= first(events, 1, "drafted").begin + most); // and told of when it was there
    CHECK(std::ranges::count_if(events, [&, at = pid](auto& e) { return e.pid == at; }) >= 10);
  }
}

TEST_CASE("and each pass through a stage on a node, within the time that it was waited for") {
  for (const base::Duration ahead : clocks_ahead) {
    CAPTURE(ahead.count());
    const auto there = node_ahead(ahead);
    EngineOptions options;
    options.devices = {"cpu:0", address_of(*there)};
    const json::value trace = trace_of(options, false);
    const auto [pid, most] = check_machine(trace, ahead);
    const auto events = events_of(trace);
    int passes = 0;
    for (const Span& pass : events) {
      if (pass.pid != pid)
        continue;
      ++passes;
      CHECK(pass.name == "layers");
      CHECK(std::ranges::any_of(events, [&, most = most](const Span& e) {
        return e.pid == 1 && e.name == "forward" && e.begin <= pass.begin + most &&
               e.end >= pass.end - most;
      }));
    }
    CHECK(passes >= 40); // the last ones may be missing
  }
}

TEST_CASE("a trace without a node speaks of no other machine") {
  const TemporaryFolder folder;
  EngineOptions options;
  options.threads = 1;
  options.trace_file = folder.file("trace.json");
  Engine engine = open_engine(options);
  ask(engine, repeatable("def", 8));
  REQUIRE(engine.shutdown(1s));
  CHECK_FALSE(
      json::parse(read_file(options.trace_file)).at("otherData").as_object().contains("machines"));
}
