// What tests of drafts on nodes ask of an engine.
#pragma once

#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace paceline::testing {

inline std::vector<TokenId> without_draft(const Request& request) {
  EngineOptions plain;
  plain.threads = 1;
  plain.speculation = SpeculationMode::off;
  Engine engine = open_engine(plain);
  return ask(engine, request).tokens;
}

/// Asks the same again and again until something is so; each answer must be the same.
inline void ask_until(Engine& engine, const Request& request, const std::vector<TokenId>& expected,
                      const std::function<bool(const Answer&)>& reached) {
  for (;;) {
    const Answer answer = ask(engine, request);
    REQUIRE(answer.tokens == expected);
    if (reached(answer))
      return;
  }
}
inline bool drafted(const Answer& answer) {
  return answer.end().speculation.accepted > 0;
}
/// Every 64th draw is repeated here from the row that came; one that differs ends the draft.
inline void check_cut_rows(EngineOptions options) {
  options.speculation = SpeculationMode::sync;
  options.draft_top_k = 3;
  Engine engine = open_engine(options);
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = 1; accepted < 100; ++seed) {
    Request request = repeatable("def", 64, seed);
    request.verify = VerifyRule::rejection;
    accepted += ask(engine, request).end().speculation.accepted;
    REQUIRE_FALSE(engine.metrics().draft_disabled);
  }
}

} // namespace paceline::testing
