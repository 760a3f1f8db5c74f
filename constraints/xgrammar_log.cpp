#include "constraints/xgrammar_log.hpp"

#include <stdexcept>
#include <utility>

namespace paceline::constraints {

static thread_local Warnings* listener = nullptr;

Warnings::Warnings() : outer_(std::exchange(listener, this)) {}

Warnings::~Warnings() {
  listener = outer_;
}

} // namespace paceline::constraints

// The functions that xgrammar calls if it was built to have its messages handled: no public header
// of its own declares them.
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& file, int line, const std::string& message);
void LogMessageImpl(const std::string& file, int line, int level, const std::string& message);

void LogFatalImpl(const std::string& /*file*/, int /*line*/, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string& /*file*/, int /*line*/, int /*level*/,
                    const std::string& message) {
  if (paceline::constraints::listener)
    paceline::constraints::listener->said.push_back(message);
}

} // namespace xgrammar
