#include "apps/server/log.hpp"

#include "apps/console/json_text.hpp"
#include "apps/console/limits.hpp"
#include "text/utf8.hpp"

#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace paceline::apps::serve {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
  case LogLevel::info: return spdlog::level::info;
  case LogLevel::warning: return spdlog::level::warn;
  case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

/// Returns the value as text, without quotes if it needs none.
std::string plain(const boost::json::value& value) {
  const auto* text = value.if_string();
  const bool simple =
      text && !text->empty() && text->find_first_of(" =\"\\\n\r\t") == boost::json::string::npos;
  return simple ? std::string(*text) : json_text(value);
}

} // namespace

struct Log::Parts {
  std::shared_ptr<spdlog::details::thread_pool> pool =
      std::make_shared<spdlog::details::thread_pool>(limits::log_lines, 1);
  std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::async_logger>(
      "serve", std::make_shared<spdlog::sinks::stderr_sink_mt>(), pool,
      spdlog::async_overflow_policy::overrun_oldest);
};

Log::Log(const std::string& level, bool as_json)
    : parts_(std::make_unique<Parts>()), as_json_(as_json) {
  auto& logger = *parts_->logger;
  logger.set_level(spdlog::level::from_str(level));
  logger.flush_on(spdlog::level::warn);
  const char* pattern = as_json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                                : "%Y-%m-%dT%H:%M:%S.%eZ %l %v";
  logger.set_formatter(
      std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc));
}

Log::~Log() = default;

void Log::insist(std::string_view event, const LogFields& fields) {
  parts_->logger->set_level(level_of(LogLevel::error));
  write(LogLevel::error, event, fields);
}

void Log::write(LogLevel level, std::string_view event, const LogFields& fields) {
  if (!parts_->logger->should_log(level_of(level)))
    return;
  std::string line;
  if (as_json_) {
    boost::json::object object{{"event", event}};
    for (const auto& field : fields)
      object.insert(field);
    line = text::sanitize_utf8(json_text(object)); // Paths may be anything.
    line = line.substr(1, line.size() - 2);        // The pattern has the braces already.
  } else {
    line = event;
    for (const auto& [name, value] : fields)
      line.append(" ").append(name.data(), name.size()).append("=").append(plain(value));
  }
  parts_->logger->log(level_of(level), line);
}

} // namespace paceline::apps::serve
