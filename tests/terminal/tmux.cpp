#include "tests/terminal/tmux.hpp"

#include "tests/support/process.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace paceline::testing {
namespace {

constexpr const char* program = "/usr/bin/tmux";
constexpr std::chrono::minutes patience{1};

/// A container may have none mounted; tmux then waits for ever.
bool terminals_exist() {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0)
    return false;
  const char* name = ::ptsname(terminal);
  const bool there = name && ::access(name, F_OK) == 0;
  ::close(terminal);
  return there;
}

} // namespace

bool Tmux::available() {
  static const bool there = [] {
    const std::string missing = !std::filesystem::exists(program) ? "there is no tmux"
                                : !terminals_exist()              ? "there is no /dev/pts"
                                                                  : "";
    if (!missing.empty())
      std::fprintf(stderr, "skipped: %s\n", missing.c_str());
    return missing.empty();
  }();
  return there;
}

Tmux::Tmux(const std::string& command, int columns, int rows) {
  static std::atomic<int> terminals{0};
  socket_ = "paceline-test-" + std::to_string(::getpid()) + "-" + std::to_string(++terminals);
  tmux({"-f", "/dev/null", "new-session", "-d", "-x", std::to_string(columns), "-y",
        std::to_string(rows), command + "; echo left $?; exec cat"});
}

Tmux::~Tmux() {
  tmux({"kill-server"});
}

std::string Tmux::tmux(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {program, "-L", socket_});
  return run_process(arguments).output;
}

std::string Tmux::screen(Shown how) const {
  std::vector<std::string> arguments{"capture-pane", how == Shown::rows ? "-p" : "-pJ"};
  if (how == Shown::codes)
    arguments.emplace_back("-e");
  if (how == Shown::all)
    arguments.insert(arguments.end(), {"-S", "-"});
  std::string text;
  for (const char c : tmux(std::move(arguments))) {
    if (c == '\n')
      text.erase(text.find_last_not_of(' ') + 1);
    text += c;
  }
  return text;
}

void Tmux::press(const std::vector<std::string>& keys) const {
  std::vector<std::string> arguments{"send-keys"};
  arguments.insert(arguments.end(), keys.begin(), keys.end());
  tmux(std::move(arguments));
}

void Tmux::type(const std::string& text) const {
  tmux({"send-keys", "-l", text});
}

void Tmux::paste(const std::string& text) const {
  tmux({"set-buffer", text});
  tmux({"paste-buffer", "-p"});
}

void Tmux::resize(int columns, int rows) const {
  tmux({"resize-window", "-x", std::to_string(columns), "-y", std::to_string(rows)});
}

std::string Tmux::await(const std::function<bool(const std::string&)>& holds, Shown how) const {
  const auto end = std::chrono::steady_clock::now() + patience;
  std::string shown = screen(how);
  while (!holds(shown)) {
    REQUIRE_MESSAGE(std::chrono::steady_clock::now() < end, shown);
    shown = screen(how);
  }
  return shown;
}

std::string Tmux::await(const std::string& text) const {
  CAPTURE(text);
  return await([&](const std::string& shown) { return shown.find(text) != shown.npos; });
}

int count(const std::string& screen, const std::string& text) {
  int found = 0;
  for (std::size_t at = screen.find(text); at != screen.npos; at = screen.find(text, at + 1))
    ++found;
  return found;
}

} // namespace paceline::testing
