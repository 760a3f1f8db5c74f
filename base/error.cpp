#include "paceline/error.hpp"

namespace paceline {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
  case ErrorCode::invalid_argument: return "invalid_argument";
  case ErrorCode::not_found: return "not_found";
  case ErrorCode::corrupt: return "corrupt";
  case ErrorCode::unsupported: return "unsupported";
  case ErrorCode::out_of_memory: return "out_of_memory";
  case ErrorCode::overloaded: return "overloaded";
  case ErrorCode::cancelled: return "cancelled";
  case ErrorCode::deadline: return "deadline";
  case ErrorCode::unavailable: return "unavailable";
  case ErrorCode::internal: return "internal";
  }
  return "internal";
}

std::string Error::text() const {
  return hint.empty() ? message : message + ": " + hint;
}

} // namespace paceline
