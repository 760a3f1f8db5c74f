// What holds for every draft of the demo target.
#pragma once

#include "tests/engine/world.hpp"
#include "tests/support/requests.hpp"
#include "tests/support/says.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

/// Greedy, and drawn by coupling.
inline std::vector<Request> both_requests() {
  return {repeatable("import os\nimport sys\n\ndef main():\n", 24),
          repeatable("class Stack:\n    def push(", 24, 7)};
}

using Answers = std::vector<std::vector<TokenId>>;

/// Returns the answers to requests that decode as one batch. stats: gets what was judged and what
/// token trees brought, added.
inline Answers answers_of(const EngineOptions& options, const std::vector<Request>& requests,
                          SpeculationStats* stats = nullptr) {
  Engine engine = open_engine(options);
  Answers tokens;
  for (const Answer& answer : ask_all(engine, requests)) {
    tokens.push_back(answer.tokens);
    if (!stats)
      continue;
    stats->judged += answer.end().speculation.judged;
    stats->accepted += answer.end().speculation.accepted;
    stats->tree_tokens += answer.end().speculation.tree_tokens;
  }
  return tokens;
}

/// Returns the options in this mode; in `sync` with a window, chunks and pages of other sizes, too.
inline EngineOptions in_mode(EngineOptions options, SpeculationMode mode) {
  options.speculation = mode;
  if (mode == SpeculationMode::sync) {
    options.window = 6;
    options.prefill_chunk = 5;
    options.page_tokens = 2;
  }
  return options;
}
/// Does the same with this draft.
inline EngineOptions drafting(EngineOptions options, const std::string& drafter,
                              SpeculationMode mode) {
  options.drafters = {drafter};
  return in_mode(std::move(options), mode);
}

/// The same by the target alone.
inline Answers plain_answers_of(EngineOptions options, const std::vector<Request>& requests) {
  options.drafters.clear();
  return answers_of(options, requests);
}

inline void check_refused(const EngineOptions& options, const std::vector<std::string>& words) {
  const Error error = refused(options);
  for (const std::string& word : words)
    CHECK(says(error, word));
}

/// Kills the draft in the middle of two answers, three times: no token is lost, and the last time
/// it is disabled. options: of simulated devices. target, too: it dies a moment before, but for the
/// last time.
inline void check_survives_kills(EngineOptions options, const std::vector<Request>& requests,
                                 bool target_too, std::uint64_t accepted_at_least) {
  REQUIRE(requests.size() == 2);
  options.speculation = SpeculationMode::overlap;
  options.faults.restarts_max = 2;
  options.faults.restarts_forgotten = std::chrono::hours(1); // Silence passes minutes.
  EngineOptions plain;
  plain.target = options.target;
  const Answers expected = plain_answers_of(plain, requests);
  EngineWorld world(options);
  for (const bool disabled : {false, false, true}) {
    const auto first = world.submit(requests[0]);
    const auto second = world.submit(requests[1]);
    REQUIRE(world.run_until([&] { return second->answer.tokens.size() >= 4; }));
    if (target_too && !disabled)
      world.kill(world.handles().stages.at(0));
    REQUIRE(world.run_until([&] { return second->answer.tokens.size() >= 8; }));
    world.kill(world.handles().draft);
    REQUIRE(world.run_until_ended({first, second}));
    CHECK(first->answer.tokens == expected[0]);
    CHECK(second->answer.tokens == expected[1]);
    world.run();
    CHECK(world.metrics().draft_disabled == disabled);
  }
  CHECK(world.metrics().accepted > accepted_at_least);
  CHECK(world.metrics().kv_pages_quarantined == 0);
}

} // namespace paceline::testing
