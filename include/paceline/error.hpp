// Errors that can happen in operation: a code, what went wrong, and how to mend it.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace paceline {

enum class ErrorCode {
  invalid_argument, ///< A bad option, request or combination of them.
  not_found,        ///< A file, model or device that does not exist.
  corrupt,          ///< A file that is not what it says it is.
  unsupported,      ///< Understood, but not something this build can do.
  out_of_memory,    ///< A budget or the machine is too small.
  overloaded,       ///< The admission queue is full: try again later.
  cancelled,
  deadline,
  unavailable, ///< A part of the engine is gone and could not be brought back.
  internal,
};

/// The code's name as it appears in JSON and logs, such as "not_found".
const char* to_string(ErrorCode code) noexcept;

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message{}; ///< What is wrong; names the thing that is.
  std::string hint{};    ///< How to mend it; may be empty.

  /// "message: hint", one line.
  std::string text() const;
};

template <class T>
using Result = tl::expected<T, Error>;

/// `return fail(ErrorCode::not_found, "no such file " + path, "check the path");`
inline tl::unexpected<Error> fail(ErrorCode code, std::string message, std::string hint = {}) {
  return tl::unexpected(Error{code, std::move(message), std::move(hint)});
}

} // namespace paceline
