// Nodes as processes, and engines that are asked for what plain decoding gives.
#pragma once

#include "paceline/engine.hpp"
#include "tests/support/process.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::testing {

/// A `paceline node`. Throws std::runtime_error where it does not start.
class NodeProcess {
public:
  /// command: before "node": the program, and what it is started by. endpoint: HOST:PORT.
  NodeProcess(std::vector<std::string> command, const std::string& endpoint,
              const std::vector<std::string>& arguments);
  /// Where it listens.
  int port() const;
  void send(int signal) { process_->send(signal); }
  pid_t id() const { return process_->id(); }

private:
  std::unique_ptr<Process> process_;
};

/// Opens it. Throws std::runtime_error with the error's text.
Engine open_or_throw(EngineOptions options);

/// What an answer was.
struct Outcome {
  std::vector<TokenId> tokens;
  std::string error; ///< Empty: there was none.
  std::uint64_t accepted = 0;
};
Outcome read_outcome(Stream& stream);
/// Throws where it is refused.
Stream submit_or_throw(Engine& engine, const Request& request);

/// Bytes of memory that this process has.
std::size_t resident_bytes();

} // namespace paceline::testing
