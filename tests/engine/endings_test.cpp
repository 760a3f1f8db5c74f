// How requests end: every one once, and where plain decoding would have ended it.
#include "tests/engine/world.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

/// The same request in every mode; `check` gets plain decoding's answer and each other one.
void compare_modes(const EngineOptions& options, const Request& request,
                   const std::function<void(const Answer&)>& check_plain,
                   const std::vector<TokenId>& end_of_text = {}) {
  std::optional<Answer> plain;
  for (const SpeculationMode mode : all_modes) {
    CAPTURE(std::string(to_string(mode)));
    EngineOptions how = options;
    how.speculation = mode;
    EngineWorld world(how);
    world.opened().defaults.end_of_text = end_of_text;
    const auto recorder = world.submit(request);
    REQUIRE(world.run_until_ended({recorder}));
    const Answer& answer = recorder->answer;
    if (!plain) {
      check_plain(answer);
      plain = answer;
    }
    CHECK(answer.tokens == plain->tokens);
    CHECK(answer.text == plain->text);
    CHECK(answer.end().reason == plain->end().reason);
    CHECK(answer.end().stop_match == plain->end().stop_match);
    CHECK(answer.end().usage.completion_tokens == int(plain->tokens.size()));
    world.run();
    CHECK(world.metrics().kv_pages_used == 0);
  }
}

/// Right drafts: ends fall inside accepted runs.
EngineOptions eager() {
  EngineOptions options = simulated({.acceptance = 1});
  options.window = 6;
  return options;
}

} // namespace

TEST_CASE("a request takes exactly the tokens it may, down to none") {
  for (const int max_tokens : {0, 1, 2, 3, 4, 7, 8, 9, 33}) {
    CAPTURE(max_tokens);
    compare_modes(eager(), request_of(10, max_tokens), [&](const Answer& plain) {
      CHECK(plain.tokens.size() == std::size_t(max_tokens));
      CHECK(plain.end().reason == FinishReason::length);
    });
  }
}

TEST_CASE("the context's end is an end by length") {
  EngineOptions options = eager();
  options.max_model_len = 64;
  for (const int prompt : {1, 50, 61, 62, 63}) {
    CAPTURE(prompt);
    compare_modes(options, request_of(prompt, std::nullopt), [&](const Answer& plain) {
      CHECK(plain.tokens.size() == std::size_t(64 - prompt));
      CHECK(plain.end().reason == FinishReason::length);
    });
  }
  Engine engine = open_engine(options);
  CHECK(engine.submit(request_of(64, std::nullopt)).error().code == ErrorCode::invalid_argument);
  CHECK(ask(engine, request_of(64, 0)).end().reason == FinishReason::length); // nothing to add
}

TEST_CASE("any of several end-of-text ids ends the output, and is its last token") {
  std::vector<TokenId> all;
  compare_modes(eager(), request_of(10, 120), [&](const Answer& plain) { all = plain.tokens; });
  for (const std::vector<TokenId>& ids : {std::vector<TokenId>{all[5]},
                                          {all[20], all[11]},
                                          {all[0]},
                                          {all[119]},
                                          {all[60], 31, all[61]}}) {
    const auto end = std::find_first_of(all.begin(), all.end(), ids.begin(), ids.end());
    compare_modes(
        eager(), request_of(10, 120),
        [&](const Answer& plain) {
          CHECK(plain.tokens == std::vector<TokenId>(all.begin(), end + 1));
          CHECK(plain.end().reason == FinishReason::stop);
          CHECK(plain.end().stop_match.empty());
        },
        ids);
  }
  Request request = request_of(10, 120);
  request.ignore_eos = true;
  compare_modes(eager(), request, [&](const Answer& plain) { CHECK(plain.tokens == all); },
                {all[5]});
}

TEST_CASE("a stop string ends text and tokens where plain decoding would, across tokens too") {
  std::string text;
  std::vector<TokenId> all;
  compare_modes(eager(), request_of(10, 60), [&](const Answer& plain) {
    text = plain.text;
    all = plain.tokens;
  });
  for (const auto& [from, length] :
       {std::pair{std::size_t(9), std::size_t(1)}, {20, 3}, {31, 7}, {50, 20}, {0, 2}}) {
    Request request = request_of(10, 60);
    const std::string stop = text.substr(from, length);
    request.stop = {"never said", stop};
    CAPTURE(stop);
    compare_modes(eager(), request, [&](const Answer& plain) {
      CHECK(plain.end().reason == FinishReason::stop);
      CHECK(plain.end().stop_match == stop);
      CHECK(plain.text == text.substr(0, text.find(stop)));
      CHECK(plain.tokens.size() < all.size());
      CHECK(std::equal(plain.tokens.begin(), plain.tokens.end(), all.begin()));
    });
  }
  Request request = request_of(10, 60);
  request.stop = {text.substr(text.size() - 2) + "?"}; // begins as the text ends
  compare_modes(eager(), request, [&](const Answer& plain) {
    CHECK(plain.text == text); // what was held back comes at the end
    CHECK(plain.end().reason == FinishReason::length);
  });
}

TEST_CASE("a deadline ends a request with what it has, waiting or running") {
  for (const SpeculationMode mode : all_modes) {
    CAPTURE(std::string(to_string(mode)));
    EngineOptions options = simulated();
    options.speculation = mode;
    options.max_num_seqs = 1;
    Engine engine = open_engine(options);
    Request request = request_of(10, 200);
    const Answer whole = ask(engine, request);
    request.deadline = 200ms;
    Stream running = submit(engine, request);
    Stream waiting = submit(engine, request);
    const Answer late = read_all(running);
    CHECK(late.end().reason == FinishReason::deadline);
    CHECK(late.tokens.size() > 5);
    CHECK(late.tokens.size() < 190);
    CHECK(std::equal(late.tokens.begin(), late.tokens.end(), whole.tokens.begin()));
    CHECK(late.end().timing.total_seconds == doctest::Approx(0.2));
    const Answer never = read_all(waiting);
    CHECK(never.end().reason == FinishReason::deadline);
    CHECK(never.tokens.empty());
    CHECK(ask(engine, request_of(5, 5)).tokens.size() == 5);
  }
}

TEST_CASE("requests beyond the admission queue are refused with a hint, the others served") {
  EngineOptions options = simulated();
  options.max_num_seqs = 2;
  options.max_waiting = 3;
  Engine engine = open_engine(options);
  std::vector<Stream> streams;
  for (int i = 0; i < 5; ++i)
    streams.push_back(submit(engine, request_of(5, 10)));
  for (int i = 0; i < 3; ++i) {
    const auto refused = engine.submit(request_of(5, 10));
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::overloaded);
    CHECK_FALSE(refused.error().hint.empty());
  }
  for (Stream& stream : streams)
    CHECK(read_all(stream).tokens.size() == 10);
  CHECK(engine.complete(request_of(5, 10))); // there is room again
  Request wrong = request_of(5, 10);
  wrong.sampling.top_p = 7.0f;
  for (int i = 0; i < 8; ++i) // what is refused for another reason takes no place
    CHECK(engine.submit(wrong).error().code == ErrorCode::invalid_argument);
  CHECK(engine.complete(request_of(5, 10)));
}

TEST_CASE("what is wrong with a token's bias is said: the id, or the number") {
  Engine engine = open_engine(simulated());
  const auto refusal = [&](TokenId token, float bias) {
    Request request = request_of(5, 5);
    request.sampling.logit_bias = {{3, 1.0f}, {token, bias}};
    return engine.submit(request).error().text();
  };
  CHECK(refusal(-1, 1.0f).find("logit_bias names token -1: ids go from 0") != std::string::npos);
  CHECK(refusal(4, std::nanf("")).find("logit_bias of token 4 is nan") != std::string::npos);
}

TEST_CASE("threads that submit as fast as they can get no more in than there are places") {
  EngineOptions options = simulated({.context = 4096});
  options.virtual_time = false;
  options.max_num_seqs = 2;
  options.max_waiting = 4;
  Engine engine = open_engine(options);
  std::array<std::vector<Stream>, 8> inside;
  std::vector<std::thread> clients;
  for (std::vector<Stream>& own : inside)
    clients.emplace_back([&own, &engine] {
      for (int tries = 0; tries < 1000; ++tries)
        if (auto stream = engine.submit(request_of(5, 4000))) // none of them ends meanwhile
          own.push_back(std::move(*stream));
        else
          CHECK(stream.error().code == ErrorCode::overloaded);
    });
  for (std::thread& client : clients)
    client.join();
  std::size_t open = 0;
  for (const std::vector<Stream>& own : inside)
    open += own.size();
  CHECK(open == 6);
}

TEST_CASE("a shutdown lets running requests finish as long as it says, and refuses new ones") {
  for (const auto& [drain, finishes] : {std::pair{10s, true}, {0s, false}}) {
    Engine engine = open_engine(simulated());
    std::vector<Stream> streams;
    for (int i = 0; i < 3; ++i)
      streams.push_back(submit(engine, request_of(5 + i, 60)));
    while (auto event = streams.front().next()) // all three run
      if (std::holds_alternative<Delta>(*event))
        break;
    engine.shutdown(drain);
    CHECK(engine.submit(request_of(5, 5)).error().code == ErrorCode::unavailable);
    CHECK(engine.complete(request_of(5, 5)).error().code == ErrorCode::unavailable);
    for (Stream& stream : streams) {
      const Answer answer = read_all(stream);
      CHECK(answer.end().reason == (finishes ? FinishReason::length : FinishReason::cancelled));
    }
    engine.shutdown(); // again
  }
}

TEST_CASE("streams outlive their engine, and have ended") {
  std::vector<Stream> streams;
  {
    Engine engine = open_engine(simulated());
    for (int i = 0; i < 3; ++i)
      streams.push_back(submit(engine, request_of(5 + i, 60)));
    streams.front().next();
    Engine moved = std::move(engine);
  }
  for (Stream& stream : streams) {
    const Answer answer = read_all(stream);
    CHECK(answer.end().reason == FinishReason::cancelled);
    stream.cancel();
    CHECK_FALSE(stream.try_next());
  }
}

TEST_CASE("a stream that is dropped or replaced cancels its request, the others go on") {
  Engine engine = open_engine(simulated());
  Stream kept = submit(engine, request_of(5, 60));
  {
    Stream dropped = submit(engine, request_of(6, 60));
    dropped.next();
  }
  Stream replaced = submit(engine, request_of(7, 60));
  replaced.next();
  replaced = submit(engine, request_of(8, 20));
  Stream moved = std::move(replaced);
  CHECK(read_all(moved).tokens.size() == 20);
  CHECK(read_all(kept).tokens.size() == 60);
  const Metrics metrics = engine.metrics();
  CHECK(metrics.finished == 4);
  CHECK(metrics.running == 0);
}

TEST_CASE("a request cancelled before anything ran ends once") {
  Engine engine = open_engine(simulated());
  Stream stream = submit(engine, request_of(5, 60));
  stream.cancel();
  stream.cancel();
  const Answer answer = read_all(stream);
  CHECK(answer.end().reason == FinishReason::cancelled);
  CHECK_FALSE(stream.next());
  CHECK(answer.tokens.empty());
}

TEST_CASE("a request says how long it waited for a place, and windows are counted") {
  EngineOptions options = simulated();
  options.speculation = SpeculationMode::sync;
  options.max_num_seqs = 1;
  Engine engine = open_engine(options);
  const auto answers = ask_all(engine, {request_of(5, 60), request_of(6, 60)});
  const Timing& first = answers[0].end().timing;
  const Timing& second = answers[1].end().timing;
  CHECK(first.queue_seconds < first.time_to_first_token_seconds);
  CHECK(second.queue_seconds >= first.total_seconds);
  CHECK(second.queue_seconds < second.time_to_first_token_seconds);

  const Metrics metrics = engine.metrics();
  CHECK(metrics.windows > 0);
  CHECK(metrics.windows <= metrics.rounds);
  CHECK(metrics.window_tokens >= metrics.judged);
  CHECK(metrics.accepted_by_position.front() <= metrics.windows);
}

TEST_CASE("a request whose biases leave no token fails, extremes that leave one do not") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const SpeculationMode mode : all_modes) {
    CAPTURE(std::string(to_string(mode)));
    EngineOptions options = simulated();
    options.speculation = mode;
    Engine engine = open_engine(options);
    Request request = request_of(5, 20);
    request.sampling.temperature = 1.0f;
    request.sampling.repetition_penalty = 0.5f;
    request.sampling.logit_bias = {{7, infinity}};
    CHECK(ask(engine, request).tokens == std::vector<TokenId>(20, 7));
    request.sampling.top_p = 1e-6f;
    CHECK(ask(engine, request).tokens == std::vector<TokenId>(20, 7));
    request.sampling.logit_bias.clear();
    for (TokenId token = 0; token < 32; ++token)
      request.sampling.logit_bias.emplace_back(token, -infinity);
    const Answer none = ask(engine, request);
    CHECK(none.tokens.empty());
    REQUIRE(none.end().error);
    CHECK(none.end().error->code == ErrorCode::invalid_argument);
    CHECK(none.end().error->message.find("logit_bias") != std::string::npos);
    CHECK(ask(engine, request_of(5, 5)).tokens.size() == 5);
  }
}

TEST_CASE("until there are min_tokens nothing ends the text, whatever is drafted") {
  constexpr TokenId end = 9;
  const Request free = [] {
    Request request = request_of(5, 60);
    request.stop_token_ids = {4};
    request.sampling.temperature = 1.0f;
    request.sampling.seed = 3;
    return request;
  }();
  Request held = free;
  held.min_tokens = 40;
  for (const bool ignore_eos : {false, true}) {
    CAPTURE(ignore_eos);
    held.ignore_eos = ignore_eos;
    compare_modes(simulated(), held,
                  [&](const Answer& plain) {
                    REQUIRE(plain.tokens.size() >= 40);
                    for (std::size_t i = 0; i < 40; ++i) {
                      CHECK(plain.tokens[i] != end);
                      CHECK(plain.tokens[i] != 4);
                    }
                  },
                  {end});
  }
  compare_modes(simulated(), free, [&](const Answer& plain) { CHECK(plain.tokens.size() < 40); },
                {end});
}

TEST_CASE("a stop string counts where it is completed behind min_tokens") {
  Engine engine = open_engine(simulated());
  Request request = request_of(5, 60);
  const Answer whole = ask(engine, request);
  request.stop = {whole.text.substr(2, 1)};
  const auto stopped = ask(engine, request).tokens.size();
  CHECK(stopped < 20);
  request.min_tokens = 20;
  const Answer held = ask(engine, request);
  CHECK(held.tokens.size() > 20);
  CHECK(held.text == whole.text.substr(0, held.text.size()));
  request.min_tokens = 61;
  const auto refused = engine.submit(request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("Request::min_tokens") == 0);
}

TEST_CASE("only allowed tokens come, in every mode, and a request that leaves none fails") {
  Request request = request_of(5, 60);
  request.sampling.temperature = 1.0f;
  request.sampling.seed = 8;
  request.sampling.allowed_token_ids = {21, 4, 17, 4};
  compare_modes(simulated(), request, [](const Answer& plain) {
    CHECK(plain.tokens.size() == 60);
    for (const TokenId token : plain.tokens)
      CHECK((token == 4 || token == 17 || token == 21));
  });
  Engine engine = open_engine(simulated());
  request.sampling.allowed_token_ids = {4};
  request.stop_token_ids = {4};
  request.min_tokens = 2;
  const Answer none = ask(engine, request);
  REQUIRE(none.end().error);
  CHECK(none.end().error->message.find("Sampling::allowed_token_ids") != std::string::npos);
  request.sampling.allowed_token_ids = {32};
  CHECK_FALSE(engine.submit(request));
}

TEST_CASE(
    "a deadline that has passed ends a request at once, one beyond all reckoning never does") {
  Engine engine = open_engine(simulated());
  Request request = request_of(5, 20);
  for (const auto deadline : {0ms, -1ms, std::chrono::milliseconds::min()}) {
    request.deadline = deadline;
    const Answer late = ask(engine, request);
    CHECK(late.end().reason == FinishReason::deadline);
    CHECK(late.tokens.empty());
  }
  request.deadline = std::chrono::milliseconds::max();
  CHECK(ask(engine, request).end().reason == FinishReason::length);
}
