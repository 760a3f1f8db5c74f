// Promises 1 and 2: speculation, batching, chunking, paging and threads change when tokens come,
// never which.
#include "tests/support/engine_fixture.hpp"

#include <doctest/doctest.h>

#include <array>

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

std::vector<std::vector<TokenId>> tokens_of(const std::vector<Answer>& answers) {
  std::vector<std::vector<TokenId>> all;
  for (const Answer& answer : answers)
    all.push_back(answer.tokens);
  return all;
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
    options.draft_device = draft;
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
