#include "paceline/event.hpp"

namespace paceline {

void Completion::add(const Delta& delta) {
  text += delta.text;
  tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
  logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
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
