// What an engine or a node says to whoever runs it.
#pragma once

#include "paceline/engine.hpp"

#include <functional>
#include <string>

namespace paceline::base {

/// Where that goes: the host's function, or standard error without one. Copies go to the same
/// place. Threads: any, as far as the host's function takes it.
class Log {
public:
  using Function = std::function<void(LogLevel, const std::string&)>;

  Log() = default;
  explicit Log(Function function) : function_(std::move(function)) {}

  /// What the host's function throws is dropped: nobody here could do anything about it.
  void write(LogLevel level, const std::string& message) const noexcept;

private:
  Function function_;
};

} // namespace paceline::base
