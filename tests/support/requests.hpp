// Requests that several tests make.
#pragma once

#include "paceline/event.hpp"
#include "paceline/request.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

/// Returns a request to a scripted model, which has no text of its own.
inline Request of_tokens(int max_tokens) {
  Request request;
  request.prompt_tokens = {1, 2, 3};
  request.max_tokens = max_tokens;
  return request;
}

/// Returns a request to a scripted model of 32 tokens. salt: makes other prompts.
inline Request request_of(int prompt_tokens, std::optional<int> max_tokens, int salt = 0) {
  Request request;
  for (int i = 0; i < prompt_tokens; ++i)
    request.prompt_tokens.push_back((i * i + 3 * i + salt) % 32);
  request.max_tokens = max_tokens;
  return request;
}

inline constexpr std::array all_modes{SpeculationMode::off, SpeculationMode::sync,
                                      SpeculationMode::overlap, SpeculationMode::automatic};

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

/// Returns requests for code, half of them greedy, half `coupled`.
inline std::vector<Request> code_requests() {
  std::vector<Request> all;
  for (const char* prompt : {"def", "import os\nimport sys\n\ndef main():\n", "class A:\n"}) {
    all.push_back(repeatable(prompt, 24));
    all.push_back(repeatable(prompt, 24, 5 + all.size()));
  }
  return all;
}

} // namespace paceline::testing
