#include "base/trace.hpp"
#include "tests/base/contents.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/json.hpp>
#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace paceline;
using namespace paceline::base;
using paceline::testing::contents;
using testing::TemporaryFolder;
namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

/// While it lives no file of this process can grow past `bytes`: a disk that is full.
class FullDisk {
public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

private:
  rlimit before_{};
  void (*handler_)(int);
};

TimePoint at_microseconds(int us) {
  return TimePoint(std::chrono::microseconds(us));
}

/// Events of one phase ("X" spans, "M" names) in a trace file that must be valid JSON.
std::vector<json::object> events(const std::string& path, const char* phase) {
  const json::value trace = json::parse(contents(path));
  std::vector<json::object> found;
  for (const json::value& e : trace.at("traceEvents").as_array())
    if (e.at("ph").as_string() == phase)
      found.push_back(e.as_object());
  return found;
}

std::string row_name(const std::string& path, std::int64_t row) {
  for (const json::object& e : events(path, "M"))
    if (e.contains("tid") && e.at("tid").to_number<std::int64_t>() == row)
      return e.at("args").at("name").as_string().c_str();
  return {};
}

} // namespace

TEST_CASE("another machine's spans are a process of their own, and its clock is stated") {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  Trace trace;
  trace.span("draft", "here", at_microseconds(0), at_microseconds(5));
  trace.set_clock("node \"a\"", {std::chrono::seconds(2), std::chrono::microseconds(700)});
  trace.set_clock("node \"a\"", {std::chrono::seconds(3), std::chrono::microseconds(40)});
  trace.span_there("node \"a\"", "draft", "there", at_microseconds(1), at_microseconds(3));
  REQUIRE(trace.write(path));
  const json::value written = json::parse(contents(path));
  const json::value& machine = written.at("otherData").at("machines").at(0);
  CHECK(machine.at("name").as_string() == "node \"a\"");
  CHECK(machine.at("clock_ahead_us").to_number<double>() == 3e6);
  CHECK(machine.at("uncertainty_us").to_number<double>() == 40);
  CHECK(machine.at("uncertainty_max_us").to_number<double>() == 700);
  const auto spans = events(path, "X");
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].at("pid").to_number<int>() == 1);
  CHECK(spans[1].at("pid") == machine.at("pid"));
  CHECK(spans[0].at("tid") != spans[1].at("tid")); // one row each, though they have one name
}

TEST_CASE("a trace without events is a valid file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  REQUIRE(Trace().write(path));
  CHECK(events(path, "X").empty());
  CHECK(folder.entries() == 1);
}

TEST_CASE("spans come out with their row, times from the first one, and arguments") {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  Trace trace;
  trace.span("target", "verify", at_microseconds(1500), at_microseconds(1800), R"("rows":5)");
  trace.span("draft", "draft", at_microseconds(1000), at_microseconds(1001));
  trace.span("target", "verify", at_microseconds(2000), at_microseconds(2400));
  REQUIRE(trace.write(path));

  const auto spans = events(path, "X");
  REQUIRE(spans.size() == 3);
  CHECK(row_name(path, spans[0].at("tid").to_number<std::int64_t>()) == "target");
  CHECK(row_name(path, spans[1].at("tid").to_number<std::int64_t>()) == "draft");
  CHECK(spans[2].at("tid") == spans[0].at("tid"));
  CHECK(spans[0].at("name").as_string() == "verify");
  CHECK(spans[0].at("ts").to_number<double>() == doctest::Approx(500));
  CHECK(spans[0].at("dur").to_number<double>() == doctest::Approx(300));
  CHECK(spans[0].at("args").at("rows").to_number<int>() == 5);
  CHECK(spans[1].at("ts").to_number<double>() == doctest::Approx(0));
  CHECK(spans[1].at("args").as_object().empty());
}

TEST_CASE("names with quotes, backslashes and control characters stay valid JSON") {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  const std::string row = "lane \"0\" C:\\models\n";
  const std::string name = "say \"\\\t\x01\" é";
  Trace trace;
  trace.span(row, name, at_microseconds(0), at_microseconds(1));
  REQUIRE(trace.write(path));
  REQUIRE(events(path, "X").size() == 1);
  CHECK(events(path, "X")[0].at("name").as_string() == name);
  CHECK(row_name(path, 0) == row);
}

TEST_CASE("spans of several threads are all kept") {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  Trace trace;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&trace, t] {
        for (int i = 0; i < 500; ++i)
          trace.span("row " + std::to_string(t), "work", at_microseconds(i),
                     at_microseconds(i + 1));
      });
  }
  REQUIRE(trace.write(path));
  CHECK(events(path, "X").size() == 2000);
  CHECK(events(path, "M").size() == 4 + 1); // the rows and the process
}

TEST_CASE("a full trace drops later events and says how many") {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  Trace trace(3);
  for (int i = 0; i < 5; ++i)
    trace.span("row", "work", at_microseconds(i), at_microseconds(i + 1));
  REQUIRE(trace.write(path));
  CHECK(events(path, "X").size() == 3);
  CHECK(json::parse(contents(path)).at("otherData").at("dropped").to_number<int>() == 2);
}

TEST_CASE("writing replaces an older trace") {
  const TemporaryFolder folder;
  const std::string path = folder.file("trace.json");
  std::ofstream(path) << std::string(100'000, 'x');
  REQUIRE(Trace().write(path));
  CHECK(events(path, "X").empty());
  CHECK(folder.entries() == 1);
}

TEST_CASE("a trace that cannot be written is an error and leaves nothing behind") {
  const TemporaryFolder folder;
  Trace trace;
  SUBCASE("because the folder does not exist") {
    const auto result = trace.write(folder.file("absent/trace.json"));
    REQUIRE(!result);
    CHECK(result.error().code == ErrorCode::unavailable);
    CHECK(result.error().text().find("absent/trace.json") != std::string::npos);
    CHECK(folder.entries() == 0);
  }
  SUBCASE("because a folder has its name") {
    fs::create_directory(folder.file("trace.json"));
    CHECK(!trace.write(folder.file("trace.json")));
    CHECK(folder.entries() == 1);
  }
  SUBCASE("because the disk is full; an older trace stays") {
    const std::string path = folder.file("trace.json");
    std::ofstream(path) << "an older trace";
    for (int i = 0; i < 2000; ++i)
      trace.span("row", "work", at_microseconds(i), at_microseconds(i + 1));
    {
      const FullDisk full(64 << 10);
      CHECK(!trace.write(path));
    }
    CHECK(contents(path) == "an older trace");
    CHECK(folder.entries() == 1);
  }
}
