// Promises 1 and 2: speculation, batching, chunking, paging and threads change when tokens come,
// never which.
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <doctest/doctest.h>

#include <array>
#include <set>

using namespace paceline;
using namespace paceline::testing;

namespace {

constexpr std::array speculating{SpeculationMode::sync, SpeculationMode::overlap,
                                 SpeculationMode::automatic};

std::vector<TokenId> words(int count, int salt) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(TokenId((i * 7 + salt * 11 + i * i) % 32));
  return tokens;
}

Sampling greedy() {
  Sampling sampling;
  sampling.temperature = 0;
  return sampling;
}

/// Everything that a warper can do, at once.
Sampling warped(std::uint64_t seed) {
  Sampling sampling;
  sampling.temperature = 0.9f;
  sampling.top_k = 24;
  sampling.top_p = 0.95f;
  sampling.min_p = 0.01f;
  sampling.repetition_penalty = 1.1f;
  sampling.presence_penalty = 0.2f;
  sampling.frequency_penalty = 0.1f;
  sampling.logit_bias = {{3, 0.5f}, {5, -1.0f}};
  sampling.seed = seed;
  return sampling;
}

/// Requests of different length, half of them greedy, half `coupled` with all warpers.
std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  for (const int length : {1, 5, 17, 40, 64, 90}) {
    Request request;
    request.prompt_tokens = words(length, int(requests.size()));
    request.max_tokens = 12 + length / 2;
    request.sampling = requests.size() % 2 ? warped(requests.size()) : greedy();
    request.verify = VerifyRule::coupled;
    requests.push_back(request);
  }
  return requests;
}

/// One request at a time, without speculation.
std::vector<std::vector<TokenId>> plainly(EngineOptions options,
                                          const std::vector<Request>& requests) {
  options.speculation = SpeculationMode::off;
  Engine engine = open_engine(options);
  std::vector<Answer> answers;
  for (const Request& request : requests)
    answers.push_back(ask(engine, request));
  return tokens_of(answers);
}

} // namespace

TEST_CASE("simulated: greedy and coupled tokens are those of plain decoding, however they came") {
  constexpr std::array chunks{512, 7, 64, 1};
  constexpr std::array pages{16, 1, 5, 64};
  constexpr std::array lookaheads{Lookahead::fork, Lookahead::chain, Lookahead::fork,
                                  Lookahead::automatic, Lookahead::none};
  for (const double acceptance : {1.0, 0.8, 0.3}) {
    const EngineOptions base = simulated({.acceptance = acceptance});
    const auto expected = plainly(base, mixed_requests());
    std::size_t turn = 0;
    for (const SpeculationMode mode : speculating)
      for (int window = 1; window <= 8; ++window, ++turn) {
        EngineOptions options = base;
        options.speculation = mode;
        options.window = window;
        options.prefill_chunk = chunks[turn % chunks.size()];
        options.page_tokens = pages[turn / 2 % pages.size()];
        options.max_num_seqs = 1 + int(turn % 5);
        options.lookahead = lookaheads[turn % lookaheads.size()];
        options.schedule_seed = turn;
        CAPTURE(acceptance);
        CAPTURE(std::string(to_string(mode)));
        CAPTURE(window);
        Engine engine = open_engine(options);
        CHECK(tokens_of(ask_all(engine, mixed_requests())) == expected);
      }
  }
}

TEST_CASE("simulated: a draft slower than the target changes no token") {
  const std::array slow{"sim:30ms", "sim:1ms+3ms/row", "sim:100us"};
  for (const char* draft : slow) {
    EngineOptions options = simulated();
    options.draft_devices = {draft};
    const auto expected = plainly(options, mixed_requests());
    for (const SpeculationMode mode : speculating) {
      CAPTURE(draft);
      CAPTURE(std::string(to_string(mode)));
      options.speculation = mode;
      Engine engine = open_engine(options);
      CHECK(tokens_of(ask_all(engine, mixed_requests())) == expected);
    }
  }
}

TEST_CASE("requests of different modes and windows share a batch") {
  EngineOptions options = simulated();
  std::vector<Request> requests = mixed_requests();
  const auto expected = plainly(options, requests);
  requests[0].speculation = SpeculationMode::off;
  requests[1].speculation = SpeculationMode::sync;
  requests[2].speculation = SpeculationMode::overlap;
  requests[3].window = 3;
  requests[4].window = 32;
  requests[4].speculation = SpeculationMode::overlap;
  Engine engine = open_engine(options);
  CHECK(tokens_of(ask_all(engine, requests)) == expected);
}

TEST_CASE("rejection repeats its tokens in sync mode with a fixed window") {
  EngineOptions options = simulated();
  options.speculation = SpeculationMode::sync;
  options.window = 4;
  std::vector<Request> requests = mixed_requests();
  for (Request& request : requests) {
    request.verify = VerifyRule::rejection;
    request.sampling = warped(5);
  }
  Engine engine = open_engine(options);
  std::vector<Answer> alone;
  for (const Request& request : requests)
    alone.push_back(ask(engine, request));
  options.schedule_seed = 9;
  Engine other = open_engine(options);
  CHECK(tokens_of(ask_all(other, requests)) == tokens_of(alone));
}

TEST_CASE("a run whose windows were cut since the draft was late does not say that it repeats") {
  for (const bool repeats : {true, false}) {
    CAPTURE(repeats);
    EngineOptions options = simulated();
    options.draft_devices = {repeats ? "sim:1ms" : "sim:20s"};
    options.speculation = SpeculationMode::sync;
    options.window = 4;
    Engine engine = open_engine(options);
    for (Request& request : mixed_requests()) {
      request.sampling = warped(5);
      request.verify = VerifyRule::rejection;
      const Finished end = ask(engine, request).end();
      CHECK(end.reproducible == repeats);
      CHECK(end.speculation.windows_cut == !repeats);
      request.verify = VerifyRule::coupled;
      CHECK(ask(engine, request).end().reproducible);
    }
  }
}

namespace {

/// The share of positions at which two of the answers agree.
double agreement(const std::vector<Answer>& answers) {
  std::size_t agree = 0;
  std::size_t all = 0;
  for (std::size_t a = 0; a < answers.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      for (std::size_t i = 0; i < answers[a].tokens.size(); ++i, ++all)
        agree += answers[a].tokens[i] == answers[b].tokens[i];
  return double(agree) / double(all);
}

} // namespace

TEST_CASE("the choices of one seed agree no more than answers with other seeds, drafts included") {
  EngineOptions options = simulated({.acceptance = 1, .peaked = false}); // all is drafted
  options.speculation = SpeculationMode::sync;
  options.window = 8;
  for (const VerifyRule rule : {VerifyRule::rejection, VerifyRule::coupled, VerifyRule::match}) {
    CAPTURE(std::string(to_string(rule)));
    std::vector<Request> choices;
    std::vector<Request> seeds;
    for (int i = 0; i < 64; ++i) {
      Request request = of_tokens(80);
      request.verify = rule;
      request.sampling.temperature = 1.0f;
      request.sampling.seed = 5;
      request.sampling.choice = i;
      choices.push_back(request);
      request.sampling.seed = 500 + i;
      request.sampling.choice = 0;
      seeds.push_back(request);
    }
    Engine engine = open_engine(options);
    const double expected = agreement(ask_all(engine, seeds));
    CHECK(agreement(ask_all(engine, choices)) < 1.2 * expected);
  }
}

TEST_CASE("a seed that was not given is drawn, another one for each request, and reported") {
  for (const bool virtual_time : {true, false}) {
    CAPTURE(virtual_time);
    EngineOptions options = simulated();
    options.devices = {"sim:1us"};
    options.drafters.clear();
    options.virtual_time = virtual_time;
    std::set<std::uint64_t> seeds;
    for (int engines = 0; engines < 2; ++engines) {
      options.schedule_seed = std::uint64_t(engines);
      Engine engine = open_engine(options);
      for (int i = 0; i < 20; ++i) {
        Request request = of_tokens(20);
        request.sampling.temperature = 1.0f;
        const Answer drawn = ask(engine, request);
        CHECK(drawn.end().seed < 1ULL << 53);
        CHECK(seeds.insert(drawn.end().seed).second);
        request.sampling.seed = drawn.end().seed;
        request.verify = drawn.end().speculation.verify;
        CHECK(ask(engine, request).tokens == drawn.tokens);
      }
    }
  }
}
