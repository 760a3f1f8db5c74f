// What forms of answers draft, through all actors: fewer steps of the target, and the very tokens
// of plain constrained decoding.
#include "tests/engine/world.hpp"
#include "tests/support/effort.hpp"

#include <doctest/doctest.h>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

constexpr const char* event_schema = R"({"type": "object",
  "properties": {"event_identifier": {"type": "integer", "minimum": 0, "maximum": 99},
                 "description": {"type": "string", "maxLength": 6},
                 "cancelled": {"type": "boolean"}},
  "required": ["event_identifier", "description", "cancelled"]})";

Request event_request(float temperature = 1, std::uint64_t seed = 1) {
  Request request;
  request.prompt = "def event():\n    return ";
  request.max_tokens = 120;
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  request.constraint = Constraint{Constraint::Kind::json_schema, event_schema, {}};
  return request;
}

Answer answer_of(EngineWorld& world, const Request& request) {
  const auto recorder = world.submit(request);
  REQUIRE(world.run_until_ended({recorder}));
  return recorder->answer;
}

Answer plain_answer_of(EngineWorld& world, Request request) {
  request.speculation = SpeculationMode::off;
  return answer_of(world, request);
}

void check_same(const Answer& answer, const Answer& plain) {
  CHECK(answer.text == plain.text);
  CHECK(answer.tokens == plain.tokens);
  CHECK(answer.end().reason == plain.end().reason);
  CHECK(answer.end().stop_match == plain.end().stop_match);
  REQUIRE(answer.logprobs.size() == plain.logprobs.size());
  for (std::size_t i = 0; i < plain.logprobs.size(); ++i) {
    CHECK(answer.logprobs[i].token == plain.logprobs[i].token);
    CHECK(answer.logprobs[i].logprob == plain.logprobs[i].logprob);
    CHECK(answer.logprobs[i].top == plain.logprobs[i].top);
  }
}

/// Requests whose answers something bends, or ends, where the form says how they go on.
std::vector<std::pair<std::string, Request>> twisted(const Answer& plain) {
  std::vector<std::pair<std::string, Request>> all;
  const auto add = [&](const std::string& name) -> Request& {
    return all.emplace_back(name, event_request()).second;
  };
  add("a stop inside a key").stop = {"dentif"};
  add("a stop over a seam").stop = {"r\": "};
  for (int tokens = 1; tokens <= 9; tokens += 2)
    add("a budget of " + std::to_string(tokens)).max_tokens = tokens;
  for (std::size_t i = 0; i < 3; ++i)
    add("without " + std::to_string(plain.tokens[i])).sampling.logit_bias = {
        {plain.tokens[i], -std::numeric_limits<float>::infinity()}};
  Request& penalised = add("penalties");
  penalised.sampling.repetition_penalty = 1.3f;
  penalised.sampling.presence_penalty = 1;
  penalised.sampling.frequency_penalty = 0.5f;
  add("a least length").min_tokens = 60;
  for (const LogprobsMode mode : {LogprobsMode::raw, LogprobsMode::processed}) {
    Request& scored = add("log-probabilities");
    scored.logprobs = true;
    scored.top_logprobs = 3;
    scored.logprobs_mode = mode;
  }
  Request& choice = add("a choice");
  choice.constraint = Constraint{Constraint::Kind::choice, "", {"def elephant", "def zebra"}};
  choice.min_tokens = 20;
  Request& cut = add("tokens that end the text");
  cut.stop_token_ids = {plain.tokens[3]};
  return all;
}

} // namespace

TEST_CASE("what the form drafts changes no token, whatever bends or ends the answer there") {
  const std::vector<std::vector<std::string>> all{
      {"none"}, {"suffix"}, {"suffix", "auto"}, {"eagle3:demo"}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& drafters = all[i];
    CAPTURE(drafters.back());
    EngineWorld world(demo_in(SpeculationMode::automatic, drafters));
    const Answer plain = plain_answer_of(world, event_request());
    std::uint64_t accepted = 0;
    std::size_t twist = 0;
    for (auto& [name, request] : twisted(plain)) {
      if (sanitized && twist++ % all.size() != i)
        continue; // Each with some drafters will do for them.
      for (const float temperature : {0.0f, 1.0f}) {
        CAPTURE(name);
        CAPTURE(temperature);
        request.sampling.temperature = temperature;
        request.drafter.reset();
        const Answer unbent = plain_answer_of(world, request);
        const Answer answer = answer_of(world, request);
        if (unbent.end().error) { // The one token that might come is banned.
          CHECK(answer.end().error);
          continue;
        }
        check_same(answer, unbent);
        REQUIRE(answer.end().speculation.drafters.back().name == "form");
        accepted += answer.end().speculation.drafters.back().accepted;
        request.drafter = "form";
        check_same(answer_of(world, request), unbent);
      }
    }
    CHECK(accepted > (sanitized ? 0 : 10)); // 33 to 212: a draft model knows most of it better.
  }
}

TEST_CASE("forms draft where nothing else does, and only where they are asked to") {
  EngineWorld world(demo_in(SpeculationMode::automatic, {"none"}));
  CHECK(world.opened().drafters.empty());
  const auto rounds = [&](const Request& request) {
    const Answer answer = answer_of(world, request);
    const SpeculationStats& stats = answer.end().speculation;
    CHECK(stats.accepted <= answer.tokens.size());
    return std::pair(double(stats.rounds) / double(answer.tokens.size()), stats.drafted);
  };
  Request prescribed = event_request();
  prescribed.constraint = Constraint{
      Constraint::Kind::choice, "", {"[item for item in self.items if item.name == name]"}};
  CHECK(rounds(prescribed).first < 0.6);
  Request free = event_request();
  free.constraint.reset();
  CHECK(rounds(free) == std::pair(1.0, std::uint64_t(0)));
  Request refused = event_request();
  refused.drafter = "none";
  CHECK(rounds(refused) == std::pair(1.0, std::uint64_t(0)));
  refused = event_request();
  refused.speculation = SpeculationMode::off;
  CHECK(rounds(refused) == std::pair(1.0, std::uint64_t(0)));
  EngineWorld off(demo_in(SpeculationMode::off, {"none"}));
  CHECK(answer_of(off, event_request()).end().speculation.drafted == 0);
}

TEST_CASE("what the form drafts is counted by itself, beside the drafters' own") {
  EngineOptions options = demo_in(SpeculationMode::sync, {"suffix", "auto"});
  EngineWorld world(options);
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    answer_of(world, event_request(1, seed));
  const Metrics metrics = world.metrics();
  REQUIRE(metrics.drafters.size() == 3);
  CHECK(metrics.drafters[2].name == "form");
  std::uint64_t judged = 0;
  std::uint64_t accepted = 0;
  for (const DrafterCounts& of : metrics.drafters) {
    judged += of.judged;
    accepted += of.accepted;
  }
  CHECK(judged == metrics.judged);
  CHECK(accepted == metrics.accepted);
  CHECK(metrics.drafters[2].accepted > 10);
}

TEST_CASE("a form leaves to a model what that knows better, and costs no rounds beside it") {
  EngineOptions options = demo_in(SpeculationMode::sync, {"auto"});
  options.draft_devices = {"sim:1ms"};
  options.window = 4;
  const auto rounds = [&](std::optional<std::string> drafter) {
    EngineWorld world(options);
    std::uint64_t all = 0;
    for (std::uint64_t seed = 1; seed <= 16; ++seed) {
      Request request = event_request(0.8f, seed);
      request.drafter = drafter;
      all += answer_of(world, request).end().speculation.rounds;
    }
    return all;
  };
  CHECK(rounds({}) < rounds("model"));
}

TEST_CASE("forms draft in stages, beside forks, in batches, and where pages are short") {
  EngineOptions staged = demo_in(SpeculationMode::overlap, {"auto"});
  staged.devices = {"sim:5ms+0.1ms/row", "sim:5ms+0.1ms/row"};
  EngineOptions forked = demo_in(SpeculationMode::overlap, {"auto"});
  forked.lookahead = Lookahead::fork;
  forked.fork_rows = 8;
  EngineOptions scarce = demo_in(SpeculationMode::automatic, {"auto"});
  scarce.kv_memory_bytes = std::size_t(2) << 20;
  EngineOptions alone = demo_in(SpeculationMode::automatic, {"none"});
  alone.kv_memory_bytes = std::size_t(2) << 20;
  std::uint64_t preemptions = 0;
  for (EngineOptions options : {staged, forked, scarce, alone}) {
    options.draft_devices.clear(); // A draft on a slow device leaves more to forms.
    CAPTURE(options.devices.size());
    CAPTURE(int(options.lookahead));
    CAPTURE(options.kv_memory_bytes);
    EngineWorld world(options);
    std::vector<Answer> plain;
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (std::uint64_t seed = 1; seed <= 6; ++seed)
      plain.push_back(plain_answer_of(world, event_request(1, seed)));
    for (std::uint64_t seed = 1; seed <= 6; ++seed)
      recorders.push_back(world.submit(event_request(1, seed)));
    REQUIRE(world.run_until_ended(recorders));
    std::uint64_t accepted = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      check_same(recorders[i]->answer, plain[i]);
      accepted += recorders[i]->answer.end().speculation.drafters.back().accepted;
    }
    CHECK(accepted > 30);
    preemptions += world.metrics().preemptions;
  }
  CHECK(preemptions > 0);
}
