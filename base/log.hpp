// Messages of an engine or a node to whoever runs it.
#pragma once

#include "paceline/engine.hpp"

#include <functional>
#include <string>

namespace paceline::base {

/// Writes them to the host's function, or to standard error if there is none. Copies write to the
/// same place. Threads: any, if the host's function allows it.
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
