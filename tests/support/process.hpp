// Runs a program as a user would: with arguments, an input, signals, and both outputs captured.
#pragma once

#include <csignal>
#include <string>
#include <sys/types.h>
#include <vector>

namespace paceline::testing {

/// How a program ended.
struct ProcessResult {
  int status = -1; ///< Exit status; -1: it did not exit by itself.
  int signal = 0;  ///< The signal that ended it; 0: none.
  std::string output;
  std::string errors;
};

/// A child process with pipes on its standard input, output and error. It is killed if it is
/// still there when this object goes.
class Process {
public:
  /// arguments[0] is the program's path. extra_environment: "NAME=value".
  explicit Process(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& extra_environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Writes to standard input, which stays open; for texts that a pipe holds.
  void write(const std::string& input);
  void close_input();
  /// Closes the reading end: the program's next write is a broken pipe.
  void close_output();
  /// Blocks until the program has written at least `count` bytes to standard output (or ended);
  /// what lies in the pipe beyond them stays there.
  void read_output(std::size_t count);
  /// What was read of standard output so far.
  const std::string& output() const { return result_.output; }
  /// Blocks until the pipe of standard output is full (or the program has ended).
  void await_full_output();
  void send(int signal);
  pid_t id() const { return child_; }
  /// Blocks until no `signal` waits to be taken by the program (or it has ended).
  void await_taken(int signal);
  /// Blocks until the program's first thread blocks `signal` (or it has ended).
  void await_blocked(int signal);
  /// Blocks until the program has used this much processor time (or it has ended).
  void await_busy(double seconds);
  /// Reads both outputs to their ends and waits for the exit; writes `input` meanwhile and closes
  /// it (none: the input stays as it is).
  ProcessResult wait(const std::string& input = {});

private:
  void pump(const std::string& input);
  bool alive() const;
  unsigned long signals(const std::string& field) const;
  std::string status_line(const std::string& field) const;

  pid_t child_ = -1;
  int input_ = -1;
  int output_ = -1;
  int errors_ = -1;
  ProcessResult result_;
};

/// Starts, writes `input`, and waits.
ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& input = {},
                          const std::vector<std::string>& extra_environment = {});

} // namespace paceline::testing
