// Engines on a GPU that read prompts by the fast path, and answers down to the bits.
#pragma once

#include "tests/gpu/cuda/demo_pair.hpp"

#include <bit>
#include <cstdint>

namespace paceline::testing {

inline EngineOptions reading_fast(const std::string& draft_device = {}) {
  EngineOptions options = small_on("cuda:0", draft_device);
  options.prefill = Prefill::fast;
  options.prefill_chunk = 128;
  options.max_model_len = 320;
  return options;
}

/// Prompts of several chunks: the first of exactly two and a token, whose logits count.
inline std::vector<Request> long_requests() {
  std::vector<Request> both = requests();
  for (std::size_t r = 0; r < both.size(); ++r) {
    both[r].prompt.clear();
    for (int i = 0; i < (r == 0 ? 129 : 210); ++i) // The first hundred they share.
      both[r].prompt_tokens.push_back((i < 100 ? i * 37 : i * 41 + int(r)) % 250 + 10);
    both[r].logprobs = true;
  }
  return both;
}

/// An answer's tokens, and the bits of their log-probabilities: of the logits, that is.
struct Bits {
  std::vector<TokenId> tokens;
  std::vector<std::uint32_t> logprobs;
  friend bool operator==(const Bits&, const Bits&) = default;

  void add(const Delta& delta) {
    tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
    for (const TokenLogprob& one : delta.logprobs)
      logprobs.push_back(std::bit_cast<std::uint32_t>(one.logprob));
  }
};

inline Bits bits_of(const Answer& answer) {
  CHECK(answer.end().reason == FinishReason::length);
  Bits bits;
  Delta all;
  all.tokens = answer.tokens;
  all.logprobs = answer.logprobs;
  bits.add(all);
  return bits;
}

inline std::vector<Bits> bits_of(const std::vector<Answer>& answers) {
  std::vector<Bits> all;
  for (const Answer& answer : answers)
    all.push_back(bits_of(answer));
  return all;
}

/// Each on an engine of its own, without a draft.
inline std::vector<Bits> alone(EngineOptions options, const std::vector<Request>& asked) {
  options.speculation = SpeculationMode::off;
  std::vector<Bits> all;
  for (const Request& request : asked) {
    Engine engine = open_engine(options);
    all.push_back(bits_of(ask(engine, request)));
  }
  return all;
}

} // namespace paceline::testing
