// Requests that several tests make.
#pragma once

#include "paceline/request.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace paceline::testing {

/// Of a scripted model, which has no text of its own.
inline Request of_tokens(int max_tokens) {
  Request request;
  request.prompt_tokens = {1, 2, 3};
  request.max_tokens = max_tokens;
  return request;
}

/// Its answer repeats, token for token, whatever happens meanwhile: greedy without a seed; with
/// one, `coupled` with temperature, top-p and penalties.
inline Request repeatable(std::string prompt, int max_tokens,
                          std::optional<std::uint64_t> seed = std::nullopt) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.verify = VerifyRule::coupled;
  request.sampling.temperature = 0.0f;
  if (seed) {
    request.sampling.temperature = 0.9f;
    request.sampling.top_p = 0.95f;
    request.sampling.repetition_penalty = 1.1f;
    request.sampling.seed = seed;
  }
  return request;
}

} // namespace paceline::testing
