#include "paceline/event.hpp"

#include "paceline/names.hpp"

namespace paceline {

void Completion::add(const Delta& delta) {
  text += delta.text;
  tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
  logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
}

const char* to_string(FinishReason reason) noexcept {
  return name_of(reason);
}
const char* to_string(SpeculationMode mode) noexcept {
  return name_of(mode);
}
const char* to_string(VerifyRule rule) noexcept {
  return name_of(rule);
}

} // namespace paceline
