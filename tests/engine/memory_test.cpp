// Pages: shared, grown, taken away, given back.
#include "tests/engine/world.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;

namespace {

void check_idle(const Metrics& m) {
  CHECK(m.running == 0);
  CHECK(m.waiting == 0);
  CHECK(m.kv_pages_used == 0);
  CHECK(m.kv_pages_quarantined == 0);
}

} // namespace

TEST_CASE("wherever a request is cancelled, it ends once and its pages come back") {
  for (const SpeculationMode mode : {SpeculationMode::off, SpeculationMode::sync,
                                     SpeculationMode::overlap, SpeculationMode::automatic})
    for (int steps = 0; steps < 150; ++steps) {
      CAPTURE(std::string(to_string(mode)));
      CAPTURE(steps);
      EngineOptions options = simulated();
      options.speculation = mode;
      options.page_tokens = 4;
      EngineWorld world(options, std::uint64_t(steps));
      const auto doomed = world.submit(request_of(20, 60));
      const auto other = world.submit(request_of(9, 40, 5));
      for (int i = 0; i < steps; ++i)
        world.step();
      world.cancel(1);
      REQUIRE(world.run_until_ended({doomed, other}));
      CHECK(doomed->answer.end().reason == FinishReason::cancelled);
      CHECK(other->answer.tokens.size() == 40);
      world.run();
      check_idle(world.metrics());
    }
}

namespace {

constexpr std::size_t scripted_token_bytes = sizeof(TokenId);

/// Rows of q of one sequence: three of the longest windows.
constexpr std::size_t q_bytes = 3 * (16 + 1) * 32 * sizeof(float);

/// Room for `tokens` in each of the two pools, one page above, and for a sequence's rows of q.
EngineOptions with_room_for(int tokens, int context, int page_tokens = 4) {
  EngineOptions options = simulated({.context = context, .draft_context = context});
  options.page_tokens = page_tokens;
  options.kv_memory_bytes = 2 * std::size_t(tokens + page_tokens) * scripted_token_bytes + q_bytes;
  return options;
}

std::vector<Answer> with_room(EngineOptions options, const std::vector<Request>& requests) {
  options.speculation = SpeculationMode::off;
  options.kv_memory_bytes = std::size_t(1) << 20;
  Engine engine = open_engine(options);
  std::vector<Answer> answers;
  for (const Request& request : requests)
    answers.push_back(ask(engine, request));
  return answers;
}

} // namespace

TEST_CASE("sequences that do not fit together take turns, and say the same") {
  std::vector<Request> requests;
  for (int i = 0; i < 5; ++i)
    requests.push_back(request_of(10 + 13 * i, 90, i));
  const EngineOptions options = with_room_for(200, 192);
  const std::vector<Answer> expected = with_room(options, requests);
  std::uint64_t preemptions = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (const SpeculationMode mode :
         {SpeculationMode::off, SpeculationMode::sync, SpeculationMode::overlap}) {
      CAPTURE(seed);
      CAPTURE(std::string(to_string(mode)));
      EngineOptions how = options;
      how.speculation = mode;
      if (mode == SpeculationMode::off) // which has no rows of q
        how.kv_memory_bytes -= q_bytes;
      EngineWorld world(how, seed);
      std::vector<std::shared_ptr<Recorder>> answers;
      for (const Request& request : requests)
        answers.push_back(world.submit(request));
      REQUIRE(world.run_until_ended(answers));
      for (std::size_t i = 0; i < answers.size(); ++i) {
        CHECK(answers[i]->answer.end().reason == FinishReason::length);
        CHECK(answers[i]->answer.tokens == expected[i].tokens);
      }
      world.run();
      const Metrics metrics = world.metrics();
      check_idle(metrics);
      preemptions += metrics.preemptions;
    }
  CHECK(preemptions > 0);
}

TEST_CASE("with a tenth of the memory that all need together every one is served, in its turn") {
  std::vector<Request> requests;
  int tokens = 0;
  for (int i = 0; i < 30; ++i) {
    requests.push_back(request_of(5 + i, 60, i));
    tokens += 5 + i + 60;
  }
  EngineOptions options = with_room_for(tokens / 10, 128);
  options.max_num_seqs = 30;
  const std::vector<Answer> expected = with_room(options, requests);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    EngineWorld world(options, seed);
    std::vector<std::shared_ptr<Recorder>> answers;
    for (const Request& request : requests)
      answers.push_back(world.submit(request));
    REQUIRE(world.run_until_ended(answers));
    for (std::size_t i = 0; i < answers.size(); ++i)
      CHECK(answers[i]->answer.tokens == expected[i].tokens);
    const Metrics metrics = world.metrics();
    CHECK(metrics.preemptions < 10 * requests.size()); // nobody is taken up in vain again and again
    CHECK(world.now().time_since_epoch() < std::chrono::seconds(60)); // One by one it is 19.
    world.run();
    check_idle(world.metrics());
  }
}

namespace {

/// Room for three sequences of 96 tokens and a part of a fourth, in any mode.
EngineOptions with_room_for_three(SpeculationMode mode) {
  EngineOptions options = with_room_for(96, 96);
  options.speculation = mode;
  if (mode == SpeculationMode::off) // no rows of q, and no draft's pages
    options.kv_memory_bytes = (options.kv_memory_bytes - q_bytes) / 2;
  options.kv_memory_bytes = options.kv_memory_bytes * 33 / 10;
  return options;
}

/// How many answers were under way at a time at most, until all had come to their ends.
std::ptrdiff_t most_answered(EngineWorld& world, const std::vector<Request>& requests) {
  std::vector<std::shared_ptr<Recorder>> answers;
  for (const Request& request : requests)
    answers.push_back(world.submit(request));
  std::ptrdiff_t most = 0;
  CHECK(world.run_until([&] {
    most = std::max(most, std::ranges::count_if(answers, [](const auto& answer) {
                      return !answer->answer.tokens.empty() && !answer->ended();
                    }));
    return std::ranges::all_of(answers, [](const auto& answer) { return answer->ended(); });
  }));
  for (std::size_t i = 0; i < requests.size(); ++i)
    CHECK(answers[i]->answer.tokens.size() == std::size_t(*requests[i].max_tokens));
  return most;
}

} // namespace

TEST_CASE("of so many requests of full length as there is room for none is preempted") {
  for (const SpeculationMode mode : {SpeculationMode::off, SpeculationMode::sync,
                                     SpeculationMode::overlap, SpeculationMode::automatic})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(std::string(to_string(mode)));
      CAPTURE(seed);
      EngineOptions options = with_room_for_three(mode);
      if (seed % 2 == 1) // whose lane is slow to let go of forks
        options.draft_devices = {"sim:30ms"};
      EngineWorld world(options, seed);
      const int room = world.parts().target.full_length;
      REQUIRE(room == 3);
      std::vector<Request> requests;
      for (int i = 0; i < room; ++i)
        requests.push_back(request_of(10 + 3 * i, 96 - (10 + 3 * i), i));
      CHECK(most_answered(world, requests) == room);
      CHECK(world.metrics().preemptions == 0);
    }
}

TEST_CASE("one more of full length waits until there is room for it") {
  for (const SpeculationMode mode : {SpeculationMode::off, SpeculationMode::overlap})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(std::string(to_string(mode)));
      CAPTURE(seed);
      EngineWorld world(with_room_for_three(mode), seed);
      std::vector<Request> requests;
      for (int i = 0; i < 4; ++i)
        requests.push_back(request_of(40, 56, i)); // whose answers outlast the reading of prompts
      CHECK(most_answered(world, requests) == 3);
      CHECK(world.metrics().preemptions == 0);
    }
}

TEST_CASE("pages that a step still held go to who waits for them as soon as it has retired") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    EngineWorld world(with_room_for(128, 128), seed);
    const auto first = world.submit(request_of(60, 60));
    const auto second = world.submit(request_of(60, 60, 1));
    const auto third = world.submit(request_of(100, 20, 2));
    for (std::uint64_t i = 0; i < 40 + 7 * seed; ++i)
      world.step();
    const base::TimePoint cancelled = world.now();
    world.cancel(1);
    REQUIRE(world.run_until_ended({first, second, third}));
    CHECK(second->answer.tokens.size() == 60);
    CHECK(third->answer.tokens.size() == 20);
    CHECK(base::seconds(world.now() - cancelled) < 3); // 80 steps of 10 ms, and two prompts
  }
}

TEST_CASE("a sequence that scores its prompt scores it once though it is preempted") {
  std::uint64_t preemptions = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    EngineOptions options = with_room_for(200, 192);
    options.prefill_chunk = 1 + int(seed % 4);
    EngineWorld world(options, seed);
    std::vector<std::shared_ptr<Recorder>> answers;
    for (int i = 0; i < 4; ++i) {
      Request request = request_of(30 + i, 120, i);
      request.prompt_logprobs = true;
      answers.push_back(world.submit(request));
    }
    REQUIRE(world.run_until_ended(answers));
    for (const auto& answer : answers) {
      CHECK(answer->answer.tokens.size() == 120);
      CHECK(answer->answer.prompt.size() == 1); // whose entries the recorder has counted
    }
    preemptions += world.metrics().preemptions;
  }
  CHECK(preemptions > 0);
}

TEST_CASE("a prompt that was read before is not read again, and says the same") {
  for (const SpeculationMode mode : {SpeculationMode::off, SpeculationMode::overlap}) {
    CAPTURE(std::string(to_string(mode)));
    EngineOptions options = simulated();
    options.speculation = mode;
    options.page_tokens = 8;
    Engine engine = open_engine(options);
    Request request = request_of(50, 30);
    const Answer first = ask(engine, request);
    CHECK(first.end().usage.cached_tokens == 0);
    const Answer second = ask(engine, request);
    CHECK(second.end().usage.cached_tokens == 48);
    CHECK(second.tokens == first.tokens);
    CHECK(second.end().timing.time_to_first_token_seconds <
          first.end().timing.time_to_first_token_seconds);

    // What was generated is worth keeping too: a conversation goes on from there.
    Request longer = request;
    longer.prompt_tokens.insert(longer.prompt_tokens.end(), first.tokens.begin(),
                                first.tokens.end());
    const Answer third = ask(engine, longer);
    CHECK(third.end().usage.cached_tokens == 72);
    options.kv_memory_bytes = 0;
    Engine fresh = open_engine(options);
    CHECK(ask(fresh, longer).tokens == third.tokens);

    request.prompt_logprobs = true; // needs every row
    CHECK(ask(engine, request).end().usage.cached_tokens == 0);
  }
}

TEST_CASE("what was computed for a prompt serves requests of its salt alone") {
  EngineOptions options = simulated();
  options.page_tokens = 8;
  Engine engine = open_engine(options);
  const auto cached = [&](const std::string& salt) {
    Request request = request_of(50, 30);
    request.cache_salt = salt;
    return ask(engine, request).end().usage.cached_tokens;
  };
  for (const char* salt : {"", "one", "another"}) {
    CAPTURE(salt);
    CHECK(cached(salt) == 0);
    CHECK(cached(salt) == 48);
  }
  Request request = request_of(50, 30);
  request.cache_salt.assign(1025, 's');
  CHECK(engine.submit(request).error().message.find("Request::cache_salt") == 0);
}

TEST_CASE("requests with one prompt that run at the same time share it") {
  EngineOptions options = simulated();
  options.page_tokens = 8;
  options.max_num_seqs = 1; // the second begins when the first's prompt is there
  Engine engine = open_engine(options);
  const std::vector<Answer> answers =
      ask_all(engine, {request_of(50, 20), request_of(50, 20), request_of(50, 20)});
  CHECK(answers[1].end().usage.cached_tokens == 48);
  CHECK(answers[2].tokens == answers[0].tokens);
  CHECK(engine.metrics().kv_pages_used == 0);
}

TEST_CASE("memory that does not hold one sequence is refused with the amount that would") {
  EngineOptions options = with_room_for(100, 192);
  const auto engine = Engine::open(options);
  REQUIRE_FALSE(engine);
  CHECK(engine.error().code == ErrorCode::out_of_memory);
  options.kv_memory_bytes = 2 * (192 + 4) * scripted_token_bytes + q_bytes;
  CHECK(Engine::open(options));
}

TEST_CASE("weights, pages and drafts are within what an engine may take of each device") {
  constexpr std::size_t megabyte = std::size_t(1) << 20;
  EngineOptions options; // the demo target
  options.drafters = {"none"};
  options.max_model_len = 64;
  options.max_num_seqs = 64;
  const auto pages_within = [&](std::size_t bytes) {
    options.memory_bytes = bytes;
    Engine engine = open_engine(options);
    Request request;
    request.prompt = "def";
    request.max_tokens = 1;
    ask(engine, request); // pages are counted when some are given out
    return engine.metrics().kv_pages_total;
  };
  const auto check_refused = [&](std::size_t bytes) {
    options.memory_bytes = bytes;
    const auto refused = Engine::open(options);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::out_of_memory);
    CHECK(refused.error().message.find("EngineOptions::memory_bytes is ") != std::string::npos);
  };
  const std::size_t weights = open_engine(options).target().weight_bytes;
  CHECK(pages_within(weights + megabyte) < pages_within(weights + 2 * megabyte));
  check_refused(weights);
  options.drafters = {"suffix"};
  options.draft_memory_bytes = megabyte;
  check_refused(weights + megabyte);
  options.drafters = {"none"};
  options.devices = {"cpu:0", "cpu:1"};
  options.memory_bytes = 0;
  const ModelInfo target = open_engine(options).target();
  const std::size_t heaviest =
      std::max(target.stages[0].weight_bytes, target.stages[1].weight_bytes);
  CHECK(pages_within(heaviest + megabyte) > 0); // which all weights together may exceed
  check_refused(heaviest);
}
