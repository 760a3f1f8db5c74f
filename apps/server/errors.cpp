#include "apps/server/errors.hpp"

#include "apps/server/client_names.hpp"
#include "text/utf8.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace paceline::apps::serve {
namespace {

unsigned status_of(ErrorCode code) {
  switch (code) {
  case ErrorCode::invalid_argument:
  case ErrorCode::unsupported: return 400;
  case ErrorCode::not_found: return 404;
  case ErrorCode::overloaded: return 429;
  case ErrorCode::out_of_memory:
  case ErrorCode::cancelled:
  case ErrorCode::unavailable: return 503;
  case ErrorCode::deadline: return 504;
  case ErrorCode::corrupt:
  case ErrorCode::internal: return 500;
  }
  return 500;
}

const char* type_of(unsigned status) {
  if (status == 401)
    return "authentication_error";
  if (status == 429)
    return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

boost::json::value or_null(const std::string& text) {
  return text.empty() ? boost::json::value(nullptr) : boost::json::value(text);
}

} // namespace

ApiError invalid_value(std::string param, std::string message) {
  return {.status = 400,
          .message = std::move(message),
          .param = std::move(param),
          .code = "invalid_value"};
}

ApiError no_request_memory() {
  return {.status = 503,
          .message = "the server holds as much of requests as it may: try again in a moment",
          .code = "request_memory",
          .retry_after_seconds = 1};
}

ApiError took_too_long() {
  return {.status = 504,
          .message = "the answer took longer than this server allows: ask for fewer tokens",
          .code = "deadline"};
}

ApiError shutting_down() {
  return {.status = 503,
          .message = "the server is shutting down: ask another one",
          .code = "shutting_down",
          .retry_after_seconds = 1};
}

ApiError api_error(const Error& error) {
  const Error known = for_clients(error);
  const bool mendable = known.hint.find("--") == std::string::npos;
  ApiError told{.status = status_of(error.code),
                .message = mendable ? known.text() : known.message + ": try again later"};
  told.code = to_string(error.code);
  if (told.status == 429 || told.status == 503)
    told.retry_after_seconds = 1;
  return told;
}

std::optional<ApiError> failure_of(const Finished& end) {
  switch (end.reason) {
  case FinishReason::stop:
  case FinishReason::length: return std::nullopt;
  case FinishReason::deadline: return took_too_long();
  case FinishReason::cancelled: return shutting_down();
  case FinishReason::error: break;
  }
  return api_error(end.error.value_or(Error{ErrorCode::internal, "the request failed", ""}));
}

Finished engine_closed() {
  Finished end;
  end.reason = FinishReason::error;
  end.error = Error{ErrorCode::unavailable, "the engine was closed", ""};
  return end;
}

Error error_of(const ApiError& error) {
  const auto code = [&] {
    switch (error.status) {
    case 404: return ErrorCode::not_found;
    case 429: return ErrorCode::overloaded;
    case 503: return ErrorCode::unavailable;
    case 504: return ErrorCode::deadline;
    default: return error.status < 500 ? ErrorCode::invalid_argument : ErrorCode::internal;
    }
  };
  return {error.code == no_request_memory().code ? ErrorCode::overloaded : code(), error.message,
          ""};
}

/// A message may name what is no UTF-8: a path, or a field of the head.
std::string error_json(const ApiError& error) {
  const boost::json::object object{{"error",
                                    {{"message", text::sanitize_utf8(error.message)},
                                     {"type", type_of(error.status)},
                                     {"param", or_null(error.param)},
                                     {"code", or_null(error.code)}}}};
  return boost::json::serialize(object);
}

} // namespace paceline::apps::serve
