#include "tests/network/nodes.hpp"

#include <fstream>
#include <stdexcept>
#include <unistd.h>
#include <variant>

namespace paceline::testing {

NodeProcess::NodeProcess(std::vector<std::string> command, const std::string& endpoint,
                         const std::vector<std::string>& arguments) {
  command.insert(command.end(), {"node", "--listen", endpoint});
  command.insert(command.end(), arguments.begin(), arguments.end());
  process_ = std::make_unique<Process>(command);
  while (!process_->output().ends_with('\n')) {
    const std::size_t before = process_->output().size();
    process_->read_output(before + 1);
    if (process_->output().size() == before)
      throw std::runtime_error("a node did not start: " + process_->wait().errors);
  }
}

int NodeProcess::port() const {
  const std::string& line = process_->output();
  const std::string address = line.substr(0, line.find(' '));
  return std::stoi(address.substr(address.rfind(':') + 1));
}

Engine open_or_throw(EngineOptions options) {
  auto engine = Engine::open(std::move(options));
  if (!engine)
    throw std::runtime_error(engine.error().text());
  return std::move(*engine);
}

Stream submit_or_throw(Engine& engine, const Request& request) {
  auto stream = engine.submit(request);
  if (!stream)
    throw std::runtime_error(stream.error().text());
  return std::move(*stream);
}

Outcome read_outcome(Stream& stream) {
  Outcome outcome;
  outcome.error = "no end";
  while (const auto event = stream.next()) {
    if (const auto* delta = std::get_if<Delta>(&*event)) {
      outcome.tokens.insert(outcome.tokens.end(), delta->tokens.begin(), delta->tokens.end());
    } else if (const auto* end = std::get_if<Finished>(&*event)) {
      outcome.error = end->error ? end->error->text() : "";
      outcome.accepted = end->speculation.accepted;
    }
  }
  return outcome;
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * std::size_t(::sysconf(_SC_PAGESIZE));
}

} // namespace paceline::testing
