// The server's log on standard error: one line an event, with fields, for people or as JSON.
#pragma once

#include "paceline/engine.hpp"

#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace paceline::apps::serve {

/// The fields of a line, in the order in which they are shown.
using LogFields = boost::json::object;

/// The log. A thread of its own writes it; when that cannot keep up, the oldest lines are lost.
/// Threads: any.
class Log {
public:
  /// level: "debug", "info", "warning", "error" or "off".
  Log(const std::string& level, bool as_json);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Writes a line such as 2026-11-21T10:00:00.000Z info request id=... status=200. event: what
  /// happened, such as "request".
  void write(LogLevel level, std::string_view event, const LogFields& fields = {});
  /// Writes likewise, whatever the level is; for the error that ends the program.
  void insist(std::string_view event, const LogFields& fields);
  void info(std::string_view event, const LogFields& fields = {}) {
    write(LogLevel::info, event, fields);
  }

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  bool as_json_;
};

} // namespace paceline::apps::serve
