#include "tests/apps/support.hpp"

#include <boost/json/parse.hpp>
#include <doctest/doctest.h>

using namespace paceline::testing;

namespace {

// Long enough that no machine is done with it before the signal comes: the pipe fills first.
std::vector<std::string> endless(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{
      "generate", "-m", "scripted", "-d", "scripted:acceptance=0.8", "-n", "1000000", "1 2 3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return paceline_command(arguments);
}

} // namespace

TEST_CASE("the first Ctrl-C keeps the text so far and shows the statistics") {
  Process process(endless());
  process.close_input();
  process.read_output(100); // several tokens have a speed
  process.send(SIGINT);
  const auto result = process.wait();
  CHECK(result.signal == 0);
  CHECK(result.status == 130);
  CHECK(result.output.ends_with("\n"));
  CHECK(result.errors.find("[cancelled]") != std::string::npos);
  CHECK(result.errors.find("tokens/s") != std::string::npos);
}

TEST_CASE("after Ctrl-C, --json still prints one whole object") {
  // Nothing shows when decoding has begun, so the signal comes later and later, until it has.
  ProcessResult result;
  for (int tenths = 1; tenths < 50 && result.output.empty(); ++tenths) {
    Process process(endless({"--json"}));
    process.close_input();
    process.await_blocked(SIGINT);
    process.await_busy(0.1 * tenths);
    process.send(SIGINT);
    result = process.wait();
    CHECK(result.status == 130);
  }
  CHECK(boost::json::parse(result.output).as_object().at("finish_reason") == "cancelled");
}

TEST_CASE("simulated runs are interrupted too") {
  Process process(endless({"--device", "sim:1ms"}));
  process.close_input();
  process.read_output(1);
  process.send(SIGINT);
  const auto result = process.wait();
  CHECK(result.status == 130);
  CHECK(result.errors.find("[cancelled]") != std::string::npos);
}

TEST_CASE("a second Ctrl-C ends the program even while it cannot write") {
  const TemporaryFolder folder;
  std::string words; // more than a pipe holds
  while (words.size() < 200'000)
    words += "1 2 3 ";
  Process process(paceline_command(
      {"generate", "-m", "scripted", "-d", "", "--echo", "-f", folder.write("prompt", words)}));
  process.close_input();
  process.await_full_output();
  process.send(SIGINT);
  process.await_taken(SIGINT);
  process.send(SIGINT);
  process.await_taken(SIGINT);
  const auto result = process.wait();
  CHECK(result.signal == 0);
  CHECK(result.status == 130);
  CHECK(result.errors.empty()); // no statistics: it did not end in good order
}

TEST_CASE("Ctrl-C while reading the prompt ends the program") {
  Process process(paceline_command({"generate"}));
  process.await_blocked(SIGINT); // before that the system ends it as any program
  process.send(SIGINT);
  const auto result = process.wait();
  CHECK(result.status == 130);
  CHECK(result.output.empty());
}
