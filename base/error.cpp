#include "paceline/error.hpp"
#include "paceline/event.hpp"

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

const char* to_string(FinishReason reason) noexcept {
  switch (reason) {
  case FinishReason::stop: return "stop";
  case FinishReason::length: return "length";
  case FinishReason::cancelled: return "cancelled";
  case FinishReason::deadline: return "deadline";
  case FinishReason::error: return "error";
  }
  return "error";
}

const char* to_string(SpeculationMode mode) noexcept {
  switch (mode) {
  case SpeculationMode::off: return "off";
  case SpeculationMode::sync: return "sync";
  case SpeculationMode::overlap: return "overlap";
  case SpeculationMode::automatic: return "auto";
  }
  return "auto";
}

const char* to_string(VerifyRule rule) noexcept {
  switch (rule) {
  case VerifyRule::rejection: return "rejection";
  case VerifyRule::coupled: return "coupled";
  case VerifyRule::match: return "match";
  case VerifyRule::automatic: return "auto";
  }
  return "auto";
}

} // namespace paceline
