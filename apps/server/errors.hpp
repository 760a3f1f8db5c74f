// The errors that clients get: OpenAI's shape, and an HTTP status.
#pragma once

#include "paceline/error.hpp"
#include "paceline/event.hpp"

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

/// Makes the error of a field that is missing, or has a value that it must not have.
ApiError invalid_value(std::string param, std::string message);
/// Makes the error of the bound over the memory of all requests.
ApiError no_request_memory();
/// Makes the error of an answer that takes longer than any may.
ApiError took_too_long();
/// Makes the error of an answer, running or waiting, that ends with the server.
ApiError shutting_down();

/// Turns an error of the engine into one of HTTP. Hints that name a program's options are for the
/// operator, and left out.
ApiError api_error(const Error& error);

/// Returns why an answer failed; none if it did not fail.
std::optional<ApiError> failure_of(const Finished& end);

/// Returns the end of a stream whose engine was closed before it.
Finished engine_closed();
/// Turns an error of HTTP into one of the engine; its message has the hint.
Error error_of(const ApiError& error);

/// Returns {"error": {"message", "type", "param", "code"}}.
std::string error_json(const ApiError& error);

} // namespace paceline::apps::serve
