// A `paceline node` on this machine, as a process of its own.
#pragma once

#include "tests/apps/support.hpp"
#include "tests/support/says.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

class RunningNode {
public:
  /// Waits until it is ready. arguments: besides --listen.
  explicit RunningNode(std::vector<std::string> arguments = {}, const std::string& port = "0") {
    arguments.insert(arguments.begin(), {"node", "--listen", "127.0.0.1:" + port});
    process_ = std::make_unique<Process>(paceline_command(std::move(arguments)));
    while (!process_->output().ends_with('\n')) {
      const std::size_t before = process_->output().size();
      process_->read_output(before + 1);
      if (process_->output().size() == before)
        FAIL(process_->wait().errors);
    }
    const std::string line = process_->output();
    address_ = line.substr(0, line.find(' '));
  }

  /// "node://127.0.0.1:40123"
  const std::string& address() const { return address_; }
  std::string port() const { return address_.substr(address_.rfind(':') + 1); }
  Process& process() { return *process_; }
  void kill() {
    process_->send(SIGKILL);
    process_->wait();
  }

private:
  std::unique_ptr<Process> process_;
  std::string address_;
};

} // namespace paceline::testing
