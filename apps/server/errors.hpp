// What clients are told when something is wrong: OpenAI's shape, and an HTTP status.
#pragma once

#include "paceline/error.hpp"

#include <optional>
#include <string>
#include <tl/expected.hpp>

namespace paceline::apps::serve {

struct ApiError {
  unsigned status = 400;
  std::string message;
  std::string param = {}; ///< The field that is wrong; empty: none.
  std::string code = {};  ///< "model_not_found"; empty: none.
  std::optional<int> retry_after_seconds = {};
};

template <class T>
using ApiResult = tl::expected<T, ApiError>;

inline tl::unexpected<ApiError> refuse(ApiError error) {
  return tl::unexpected(std::move(error));
}

/// A field of a request is missing, or has no value that it may have.
ApiError invalid_value(std::string param, std::string message);
/// The bound over all requests is reached.
ApiError no_request_memory();
/// An answer takes longer than any may.
ApiError took_too_long();
/// An answer, or what waits to be one, is ended with the server.
ApiError shutting_down();

/// An error of the engine, as HTTP has it; of its hints those that name a program's options are for
/// the operator.
ApiError api_error(const Error& error);

/// An error of HTTP's, as the engine would have it; its message has the hint.
Error error_of(const ApiError& error);

/// {"error": {"message", "type", "param", "code"}}
std::string error_json(const ApiError& error);

} // namespace paceline::apps::serve
