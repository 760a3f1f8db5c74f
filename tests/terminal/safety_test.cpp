// What a model writes does not command the terminal. So hot that any token is drawn, control bytes
// too.
#include "tests/apps/support.hpp"

#include <algorithm>
#include <doctest/doctest.h>

using namespace paceline::testing;

namespace {

const std::string wild = " -n 400 --temperature 100 --top-p 1 --seed 1 -q";

/// Output of a shell's command in a terminal that has no codes of its own.
std::string in_terminal(const std::string& command) {
  return run_process({"/usr/bin/script", "-qec", command, "/dev/null"}, "", {"TERM=dumb"}).output;
}

bool commands(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t') ||
           c == '\x7f';
  });
}

} // namespace

TEST_SUITE_BEGIN("terminal");

TEST_CASE("control characters of a model are shown in a terminal, and passed on elsewhere") {
  const std::string generate = PACELINE_PROGRAM " generate x" + wild;
  CHECK(commands(run_process({"/bin/sh", "-c", generate}).output));
  const std::string shown = in_terminal(generate);
  CHECK(shown.size() > 400);
  CHECK_FALSE(commands(shown));
  const std::string chat = "echo x | " PACELINE_PROGRAM " chat" + wild;
  CHECK(commands(run_process({"/bin/sh", "-c", chat}).output));
  CHECK_FALSE(commands(in_terminal(chat)));
}

TEST_SUITE_END();
