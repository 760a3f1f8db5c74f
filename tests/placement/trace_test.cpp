// Traces as they were recorded, ours and those that Azure published, and their replay.
#include "placement/trace.hpp"
#include "tests/support/says.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace paceline;
using namespace paceline::placement;
using doctest::Approx;

namespace {

const std::array<std::string, 2> names{"a", "b"};

Trace sound(const std::string& text) {
  auto trace = read_trace(text, names);
  if (!trace)
    FAIL(trace.error().text());
  return *trace;
}

std::string complaint(const std::string& text) {
  const auto trace = read_trace(text, names);
  return trace ? "" : trace.error().text();
}

/// A hash as Azure has them: 64 hexadecimal digits.
std::string hash(int of) {
  return fmt::format("{:064x}", 0x9e3779b97f4a7c15u * unsigned(of + 1));
}

/// A day as the files of 2019 have it; counts: of each function, minute by minute from the first
/// on, and none later.
std::string day_of_2019(const std::vector<std::vector<int>>& counts, int minutes = 1440) {
  std::string text = "HashOwner,HashApp,HashFunction,Trigger";
  for (int minute = 1; minute <= minutes; ++minute)
    text += fmt::format(",{}", minute);
  int function = 0;
  for (const auto& each : counts) {
    text += fmt::format("\n{},{},{},http", hash(1), hash(2), hash(100 + function++));
    for (int minute = 0; minute < minutes; ++minute)
      text += fmt::format(",{}", minute < int(each.size()) ? each[std::size_t(minute)] : 0);
  }
  return text + "\n";
}

struct Invocation {
  int app;
  int function;
  double end;
  double duration;
};

std::string file_of_2021(const std::vector<Invocation>& invocations) {
  std::string text = "app,func,end_timestamp,duration\n";
  for (const auto& [app, function, end, duration] : invocations)
    text += fmt::format("{},{},{},{}\n", hash(app), hash(100 + function), end, duration);
  return text;
}

std::vector<std::size_t> by_model(const Workload& workload) {
  std::vector<std::size_t> counts(2, 0);
  for (const Arrival& arrival : workload.arrivals)
    ++counts[std::size_t(arrival.model)];
  return counts;
}

/// The CV of a model's gaps.
double cv_of(const Workload& workload, int model) {
  double last = -1, sum = 0, squares = 0, n = 0;
  for (const auto& [seconds, of] : workload.arrivals) {
    if (of != model)
      continue;
    if (last >= 0) {
      sum += seconds - last;
      squares += (seconds - last) * (seconds - last);
      ++n;
    }
    last = seconds;
  }
  const double mean = sum / n;
  return std::sqrt(squares / n - mean * mean) / mean;
}

} // namespace

TEST_CASE("a trace is read, and a line that is none is named") {
  const Trace trace = sound("seconds,model\n0.5,b\r\n\n0.5,a\n2,a");
  CHECK(trace.arrivals.size() == 3);
  CHECK(trace.arrivals[0].model == 1);
  CHECK(trace.arrivals[0].seconds == 0); // It begins with its first request.
  CHECK(trace.arrivals[2].seconds == 1.5);
  CHECK(trace.seconds > 1.5);
  CHECK(complaint("0,a\n1;a") ==
        "line 2: this is no request: write seconds,model, such as 12.5,bert");
  CHECK(complaint("1,c") == "line 1: there is no model c: name one of the plan's models");
  CHECK(complaint("2,a\n1,a") ==
        "line 2: it is earlier than the line before: sort the lines by seconds");
  CHECK(complaint("-1,a").starts_with("line 1: this is no request"));
  CHECK(complaint("nan,a").starts_with("line 1: this is no request"));
  CHECK(complaint("1").starts_with("line 1: this is no request"));
  CHECK(complaint("seconds,model\n").starts_with("it has no requests"));
}

TEST_CASE("a trace whose times count from 1970 is that which counts from 0") {
  const Trace now = sound("0,a\n0.5,b\n3,a\n");
  const Trace recorded = sound("1700000000,a\n1700000000.5,b\n1700000003,a\n");
  CHECK(recorded.seconds == now.seconds);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(recorded.arrivals[i].seconds == now.arrivals[i].seconds);
}

TEST_CASE("Azure's functions of 2019 become models in turn, by the minute") {
  const Trace trace = sound(day_of_2019({{3, 0, 2}, {0, 0}, {1, 5}, {0, 0, 7}}));
  CHECK(trace.seconds == 86400);
  CHECK(trace.arrivals.empty());
  REQUIRE(trace.minutes.size() == 2);
  CHECK(trace.minutes[0].size() == 1440);
  // The second function is never called, and has no turn.
  CHECK(std::vector(trace.minutes[0].begin(), trace.minutes[0].begin() + 3) ==
        std::vector<std::size_t>{3, 0, 9});
  CHECK(std::vector(trace.minutes[1].begin(), trace.minutes[1].begin() + 3) ==
        std::vector<std::size_t>{1, 5, 0});
}

TEST_CASE("Azure's functions of 2021 come when they began, whatever the order of their ends") {
  // Functions' names are unique within an application only: 0/0, 1/0 and 0/1 are three.
  const Trace trace =
      sound(file_of_2021({{0, 0, 12, 1}, {1, 0, 20, 10}, {0, 1, 20.5, 0.5}, {0, 0, 30, 1}}));
  REQUIRE(trace.arrivals.size() == 4);
  CHECK(trace.minutes.empty());
  const std::vector<std::pair<double, int>> expected{{0, 1}, {1, 0}, {10, 0}, {19, 0}};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(trace.arrivals[i].seconds == Approx(expected[i].first));
    CHECK(trace.arrivals[i].model == expected[i].second);
  }
}

TEST_CASE("a file that is like Azure's and is not is refused with its line") {
  CHECK(complaint("HashOwner,HashApp,HashFunction,Trigger,1,3\n")
            .starts_with("line 1: this is not the heading of Azure Functions 2019: begin with"));
  CHECK(complaint("HashOwner,HashApp\n").starts_with("line 1: this is not the heading"));
  CHECK(complaint("HashOwner,HashApp,HashFunction,Trigger\n").starts_with("line 1: this is not"));
  std::string years = "HashOwner,HashApp,HashFunction,Trigger";
  for (int minute = 1; minute <= 600'000; ++minute)
    years += "," + std::to_string(minute);
  CHECK(complaint(years + "\n").starts_with("line 1: 600000 minutes of 2 models are too many"));
  const std::string head = "HashOwner,HashApp,HashFunction,Trigger,1,2\n";
  CHECK(complaint(head + "o,a,f,http,1,2\n").empty());
  for (const char* line : {"o,a,f,http,1", "o,a,f,http,1,2,3", "o,a,f,http,1,-2",
                           "o,a,f,http,1,2.5", "o,a,f,http,1,x", "o,a", "o,a,f,http,1,1e300"})
    CHECK(complaint(head + line) ==
          "line 2: this is no function: write four names and 2 whole numbers");
  CHECK(complaint("app,func,duration,end_timestamp\n")
            .starts_with("line 1: this is not the heading of Azure Functions 2021"));
  const std::string heading = "app,func,end_timestamp,duration\n";
  for (const char* line : {"a,f,1", "a,f,1,x", "a,f,x,1", "a,f,1,-1", "a,f,1,1,1"})
    CHECK(complaint(heading + "a,f,2,1\n" + line).starts_with("line 3: this is no invocation"));
  CHECK(complaint(heading).starts_with("it has no invocations"));
}

TEST_CASE("a trace with times is replayed as it was, or a part of it") {
  const Trace trace = sound("0,a\n5,b\n5,a\n9,b\n");
  const auto all = replay(trace, {}, 1);
  REQUIRE(all);
  CHECK(all->arrivals.size() == 4);
  CHECK(all->arrivals[1].model == 1);
  const auto part = replay(trace, {.from_seconds = 4, .to_seconds = 8}, 1);
  REQUIRE(part);
  CHECK(part->seconds == 4);
  CHECK(part->arrivals.size() == 2);
  CHECK(part->arrivals[0].seconds == 1);
  const auto none = replay(trace, {.from_seconds = 100}, 1);
  REQUIRE_FALSE(none);
  CHECK(none.error().text() == "the part that is replayed has no requests: replay more of the "
                               "trace, or with a larger rate_scale");
}

TEST_CASE("minutes that were counted are drawn at their rates, and all seeds draw others") {
  std::vector<std::vector<int>> counts(2, std::vector<int>(600, 60));
  std::fill_n(counts[1].begin(), 300, 0); // The other model comes in the second half only.
  const Trace trace = sound(day_of_2019(counts));
  const auto drawn = replay(trace, {.to_seconds = 36000}, 7);
  REQUIRE(drawn);
  CHECK(drawn->seconds == 36000);
  CHECK(by_model(*drawn)[0] == Approx(36000).epsilon(0.02));
  CHECK(by_model(*drawn)[1] == Approx(18000).epsilon(0.03));
  CHECK(std::ranges::is_sorted(drawn->arrivals, {}, &Arrival::seconds));
  CHECK(std::ranges::none_of(drawn->arrivals, [](const Arrival& arrival) {
    return arrival.model == 1 && arrival.seconds < 18000;
  }));
  CHECK(cv_of(*drawn, 0) == Approx(1).epsilon(0.03));
  CHECK(by_model(*replay(trace, {.to_seconds = 36000, .rate_scale = 0.5}, 7))[0] ==
        Approx(18000).epsilon(0.03));
  const auto again = replay(trace, {.to_seconds = 36000}, 7);
  CHECK(again->arrivals.size() == drawn->arrivals.size());
  CHECK(replay(trace, {.to_seconds = 36000}, 8)->arrivals.size() != drawn->arrivals.size());
}

TEST_CASE("rates and CVs are scaled, window by window") {
  const std::array traffic{Traffic{4, 2}, Traffic{1, 1}};
  const Workload recorded = draw_workload(traffic, 40'000, 3);
  const Trace trace{recorded.seconds, recorded.arrivals, {}};
  for (const double scale : {0.25, 2.0}) {
    CAPTURE(scale);
    const auto slower =
        replay(trace, {.rate_scale = scale, .cv_scale = 1.5, .window_seconds = 4000}, 1);
    REQUIRE(slower);
    CHECK(slower->seconds == recorded.seconds);
    const auto before = by_model(recorded), after = by_model(*slower);
    CHECK(double(after[0]) == Approx(scale * double(before[0])).epsilon(0.1));
    CHECK(double(after[1]) == Approx(scale * double(before[1])).epsilon(0.1));
    CHECK(cv_of(*slower, 0) == Approx(3).epsilon(0.15));
    CHECK(cv_of(*slower, 1) == Approx(1.5).epsilon(0.15));
  }
  const auto wrong = replay(trace, {.rate_scale = 1e6}, 1);
  REQUIRE_FALSE(wrong);
  CHECK(testing::says(wrong.error(), "requests are too many: make rate_scale smaller"));
  const auto many = replay(trace, {.cv_scale = 2, .window_seconds = 0.06}, 1);
  REQUIRE_FALSE(many);
  CHECK(testing::says(many.error(), "windows of 2 models are too many"));
}

TEST_CASE("windows need not end with minutes") {
  const Trace trace = sound(day_of_2019({std::vector<int>(1440, 6), std::vector<int>(1440, 6)}));
  const auto drawn =
      replay(trace, {.from_seconds = 30, .to_seconds = 20030, .window_seconds = 90}, 1);
  REQUIRE(drawn);
  CHECK(double(drawn->arrivals.size()) == Approx(0.2 * 20000).epsilon(0.06));
}
