// Why a template could not be read or followed, and a bound on the work of following one.
#pragma once

#include "paceline/error.hpp"
#include "text/limits.hpp"

#include <cstddef>
#include <string>
#include <utility>

namespace paceline::text::jinja {

/// Thrown only within this folder; ChatTemplate turns it into an error value, with the line.
struct Failure {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string what;
  int line = 0; ///< 0: the line that is being followed.
};

/// Fails because the template uses something that is not known here.
[[noreturn]] inline void unsupported(std::string what, int line = 0) {
  throw Failure{ErrorCode::unsupported, std::move(what), line};
}
/// Fails because the template does something that Jinja itself would refuse.
[[noreturn]] inline void mistake(std::string what, int line = 0) {
  throw Failure{ErrorCode::invalid_argument, std::move(what), line};
}

/// The steps that are left; a step is a node that is followed, or a few bytes that are copied.
class Budget {
public:
  void spend(std::size_t steps = 1) {
    if (steps > left_)
      mistake("the template takes too many steps");
    left_ -= steps;
  }
  /// Is called before a text of that many bytes is made.
  void spend_text(std::size_t bytes) {
    if (bytes > limits::template_text_bytes_max)
      mistake("the template makes a text that is too long");
    spend(1 + bytes / 16);
  }

private:
  std::size_t left_ = limits::template_steps_max;
};

} // namespace paceline::text::jinja
