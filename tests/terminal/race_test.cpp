// paceline race in a real terminal.
#include "tests/terminal/tmux.hpp"

#include <doctest/doctest.h>

using namespace paceline::testing;

namespace {

std::string race(const std::string& options) {
  return "env LC_ALL=C.UTF-8 TERM=screen " PACELINE_PROGRAM " race " + options;
}

} // namespace

TEST_SUITE_BEGIN("terminal");

TEST_CASE("a race on one machine is replayed side by side, and says so" *
          doctest::skip(!Tmux::available())) {
  const Tmux terminal("echo before; " + race("-n 32 --temperature 0 --slow 20"), 100, 24);
  const auto shown = terminal.await("overlapped, ");
  CHECK(shown.find("One machine") != std::string::npos);
  CHECK(shown.find("replayed 20 times slower") != std::string::npos);
  CHECK(shown.find("before") == std::string::npos); // it has the other screen
  const auto end = terminal.await("left 0");
  CHECK(end.find("before") != std::string::npos);
  CHECK(end.find(" wins: ") != std::string::npos);
}

TEST_CASE("a race follows the window's size, and gives up columns where it is narrow" *
          doctest::skip(!Tmux::available())) {
  const Tmux terminal(race("-n 32 --slow 5000"), 100, 24);
  terminal.await("overlapped, ");
  terminal.resize(64, 12);
  terminal.await(
      [](const std::string& s) { return s.find("synchro") < 64 && count(s, "\n") <= 12; });
  terminal.resize(50, 12);
  terminal.await(
      [](const std::string& s) { // a line each
        return s.find("\nsynchronous ") != s.npos && s.find("\noverlapped ") != s.npos;
      },
      Tmux::Shown::rows);
  terminal.press({"C-c"});
  terminal.await("left 130");
}

TEST_CASE("a race on simulated devices is replayed, and says in whose time" *
          doctest::skip(!Tmux::available())) {
  const Tmux terminal(race("-n 64 --device sim:20ms --draft-device sim:2ms"), 100, 24);
  terminal.await("Simulated devices: they ran in the time that the devices would take, and are");
  CHECK(terminal.await("left 0").find(" wins: ") != std::string::npos);
}

TEST_CASE("in a narrow window a race is plain lines" * doctest::skip(!Tmux::available())) {
  const Tmux terminal(race("-n 16"), 50, 24);
  const auto shown = terminal.await("left 0");
  CHECK(count(shown, " tokens/s") == 3);
  CHECK(shown.find("wins:") != std::string::npos);
}

TEST_SUITE_END();
