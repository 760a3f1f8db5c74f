#include "tests/support/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <spawn.h>
#include <stdexcept>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace paceline::testing {
namespace {

void close_end(int& file) {
  if (file >= 0)
    ::close(std::exchange(file, -1));
}

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::runtime_error("pipe2");
  return ends;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts)
    list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> environment_with(const std::vector<std::string>& extra) {
  std::vector<std::string> all = extra;
  for (char** entry = environ; *entry; ++entry) { // Of two equal names a shell may take either.
    const std::string_view inherited = *entry;
    const std::string_view name = inherited.substr(0, inherited.find('=') + 1);
    if (std::none_of(extra.begin(), extra.end(),
                     [&](const std::string& given) { return given.starts_with(name); }))
      all.emplace_back(inherited);
  }
  return all;
}

/// Appends what can be read now; closes `file` at its end.
void take(int& file, std::string& text, std::size_t most) {
  std::array<char, 4096> chunk{};
  const ssize_t count = ::read(file, chunk.data(), std::min(most, chunk.size()));
  if (count > 0)
    text.append(chunk.data(), std::size_t(count));
  else if (count == 0 || errno != EINTR)
    close_end(file);
}

/// Writes what fits; closes `file` when nothing is left or nobody reads.
void give(int& file, std::string_view& text) {
  const ssize_t count = ::write(file, text.data(), text.size());
  if (count > 0)
    text.remove_prefix(std::size_t(count));
  if (text.empty() || (count < 0 && errno != EINTR && errno != EAGAIN))
    close_end(file);
}

unsigned long bit(int signal) {
  return 1ul << (signal - 1);
}

/// A child starts as from a shell: no signal blocked, SIGPIPE deadly.
class DefaultSignals {
public:
  DefaultSignals() {
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t reset = none;
    sigaddset(&reset, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &reset);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~DefaultSignals() { posix_spawnattr_destroy(&attributes_); }
  DefaultSignals(const DefaultSignals&) = delete;
  DefaultSignals& operator=(const DefaultSignals&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

private:
  posix_spawnattr_t attributes_{};
};

} // namespace

Process::Process(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& extra_environment) {
  std::signal(SIGPIPE, SIG_IGN);
  const auto input = make_pipe();
  const auto output = make_pipe();
  const auto errors = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  const DefaultSignals attributes;
  const auto environment = environment_with(extra_environment);
  const int failed = posix_spawn(&child_, arguments.at(0).c_str(), &actions, attributes.get(),
                                 pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  for (const int end : {input[0], output[1], errors[1]})
    ::close(end);
  input_ = input[1];
  output_ = output[0];
  errors_ = errors[0];
  fcntl(input_, F_SETFL, O_NONBLOCK);
  if (failed != 0)
    throw std::runtime_error("cannot start " + arguments.at(0));
}

Process::~Process() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  close_end(input_);
  close_end(output_);
  close_end(errors_);
}

void Process::write(const std::string& input) {
  if (::write(input_, input.data(), input.size()) != ssize_t(input.size()))
    throw std::runtime_error("cannot write to the program");
}

void Process::close_input() {
  close_end(input_);
}

void Process::close_output() {
  close_end(output_);
}

void Process::read_output(std::size_t count) {
  while (output_ >= 0 && result_.output.size() < count)
    take(output_, result_.output, count - result_.output.size());
}

void Process::await_full_output() {
  const int capacity = fcntl(output_, F_GETPIPE_SZ);
  for (int filled = 0; alive() && filled < capacity; std::this_thread::yield())
    ioctl(output_, FIONREAD, &filled);
}

void Process::send(int signal) {
  ::kill(child_, signal);
}

void Process::await_taken(int signal) {
  while (alive() && (signals("ShdPnd:") & bit(signal)) != 0)
    std::this_thread::yield();
}

void Process::await_blocked(int signal) {
  while (alive() && (signals("SigBlk:") & bit(signal)) == 0)
    std::this_thread::yield();
}

void Process::await_busy(double seconds) {
  const double wanted = seconds * double(sysconf(_SC_CLK_TCK));
  while (alive()) {
    std::ifstream file("/proc/" + std::to_string(child_) + "/stat");
    std::string skipped;
    std::getline(file, skipped, ')'); // the number and the name
    for (int field = 3; field < 14; ++field)
      file >> skipped;
    double user = 0;
    double system = 0;
    if (!(file >> user >> system) || user + system >= wanted)
      return;
    std::this_thread::yield();
  }
}

bool Process::alive() const {
  return !status_line("State:").starts_with("Z");
}

unsigned long Process::signals(const std::string& field) const {
  return std::stoul(status_line(field), nullptr, 16);
}

/// A line of /proc/PID/status, after its name.
std::string Process::status_line(const std::string& field) const {
  std::ifstream status("/proc/" + std::to_string(child_) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field))
      return line.substr(field.size() + 1);
  return "0";
}

/// Serves all three pipes until both outputs end. The input is closed when `input` is written;
/// without any it stays as it is.
void Process::pump(const std::string& input) {
  std::string_view left = input;
  while (output_ >= 0 || errors_ >= 0) {
    std::array files{pollfd{output_, POLLIN, 0}, pollfd{errors_, POLLIN, 0},
                     pollfd{left.empty() ? -1 : input_, POLLOUT, 0}};
    if (poll(files.data(), files.size(), -1) < 0)
      continue;
    if (files[0].revents != 0)
      take(output_, result_.output, result_.output.max_size());
    if (files[1].revents != 0)
      take(errors_, result_.errors, result_.errors.max_size());
    if (files[2].revents != 0)
      give(input_, left);
  }
}

ProcessResult Process::wait(const std::string& input) {
  pump(input);
  int how = 0;
  waitpid(std::exchange(child_, -1), &how, 0);
  result_.status = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
  result_.signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
  return result_;
}

ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& input,
                          const std::vector<std::string>& extra_environment) {
  Process process(arguments, extra_environment);
  if (input.empty())
    process.close_input();
  return process.wait(input);
}

} // namespace paceline::testing
