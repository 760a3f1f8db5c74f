// Connections that break: nothing runs twice unless that was asked for, and nothing is lost then.
#include "tests/serve/proxy.hpp"
#include "tests/serve/remote.hpp"

#include <algorithm>
#include <bit>
#include <doctest/doctest.h>
#include <random>

using namespace paceline;
using namespace paceline::testing;
namespace asio = boost::asio;

namespace {

constexpr int requests_max = 7;

/// Prompts of 1, 2, 4 ... tokens: the sum of the prompts that a server took says which ones.
std::vector<Request> telltale() {
  std::vector<Request> requests;
  for (int i = 0; i < requests_max; ++i) {
    Request request;
    request.prompt_tokens.assign(std::size_t(1) << i, TokenId(i + 1));
    request.max_tokens = 20 + 10 * i;
    request.ignore_eos = true;
    request.sampling.seed = std::uint64_t(i);
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<std::size_t> budgets_of(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> budgets(count);
  for (std::size_t& budget : budgets)
    budget = 1 + std::size_t(random() % 5000);
  return budgets;
}

ClientOptions through(const Proxy& proxy) {
  ClientOptions options;
  options.port = proxy.port();
  options.reconnect_pause = options.reconnect_pause_max = std::chrono::milliseconds(1);
  options.reconnect_tries = 1000;
  return options;
}

} // namespace

TEST_CASE("whenever a connection breaks, no request runs twice, and each has one end") {
  LiveServer server(scripted("sim:50us"));
  const auto requests = telltale();
  const auto expected = ask_all(server.engine(), requests);
  while (server.engine().metrics().finished < requests.size()) // counted after the ends are told
    std::this_thread::yield();
  int broken = 0;
  int whole = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const Metrics before = server.engine().metrics();
    asio::io_context io(1);
    const Proxy proxy(server.grpc_port(), budgets_of(seed, 3));
    {
      Client client(io.get_executor(), through(proxy));
      // An attempt that breaks in the first greeting refuses what waits: nothing of that has run.
      const auto answers = ask_remotely(io, client, requests);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        const Finished& end = answers[i].end(); // one, and nothing after it
        if (end.error) {
          ++broken;
          CHECK((end.error->code == ErrorCode::unavailable));
          CHECK(std::equal(answers[i].tokens.begin(), answers[i].tokens.end(),
                           expected[i].tokens.begin()));
        } else {
          ++whole;
          CHECK(answers[i].tokens == expected[i].tokens);
          CHECK(answers[i].text == expected[i].text);
        }
      }
    }
    server.await_idle();
    const auto begun = [&](const Metrics& now) {
      return std::popcount(now.prompt_tokens - before.prompt_tokens);
    };
    Metrics after = server.engine().metrics();
    for (; int(after.finished - before.finished) < begun(after); after = server.engine().metrics())
      std::this_thread::yield(); // Ends are counted after they are told.
    CHECK(int(after.finished - before.finished) == begun(after));
  }
  CHECK(broken > 100);
  CHECK(whole > 20);
}

TEST_CASE("with retries every request comes whole, each token once, wherever connections break") {
  LiveServer server(scripted("sim:50us"));
  const auto requests = telltale();
  const auto expected = ask_all(server.engine(), requests);
  const auto started = server.engine().metrics().finished;
  const auto connect = [](Client& client) -> asio::awaitable<bool> {
    const auto found = co_await client.async_connect(asio::use_awaitable);
    co_return found.has_value();
  };
  constexpr int seeds = 40;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    asio::io_context io(1);
    auto budgets = budgets_of(seed, 6);
    const Proxy proxy(server.grpc_port(), budgets);
    Client client(io.get_executor(), through(proxy));
    while (!run(io, connect(client))) // the first attempt fails at once
      ;
    const auto answers = ask_remotely(io, client, requests, {.retries = 100});
    for (std::size_t i = 0; i < answers.size(); ++i) {
      CAPTURE(i);
      CHECK(!answers[i].end().error);
      CHECK(answers[i].tokens == expected[i].tokens);
      CHECK(answers[i].text == expected[i].text);
    }
  }
  server.await_idle();
  CHECK(server.engine().metrics().finished - started > seeds * requests.size()); // some ran again
}

TEST_CASE("a retry that answers something else is an error, and not a mixture") {
  LiveServer server(scripted("sim:50us"));
  EngineOptions another = scripted("sim:50us");
  another.target = ScriptedPair{.context = 65'536, .seed = 8}.target(); // another model
  LiveServer other(another);
  Request request = prompt(2000);
  request.ignore_eos = true;
  const Answer expected = ask(server.engine(), request);
  asio::io_context io(1);
  const Proxy proxy(server.grpc_port(), {2000}, other.grpc_port());
  Client client(io.get_executor(), through(proxy));
  const Answer answer = run(io, ask_remote(client, request, {.retries = 5}));
  REQUIRE(answer.end().error.has_value());
  CHECK(answer.end().error->message.find("answers something else") != std::string::npos);
  CHECK(!answer.tokens.empty());
  CHECK(std::equal(answer.tokens.begin(), answer.tokens.end(), expected.tokens.begin()));
  other.await_idle(); // it was cancelled there
}

TEST_CASE("only what repeats itself can be retried") {
  Remote remote(scripted());
  Request request = prompt(3);
  request.sampling.seed.reset();
  const auto refused = run(remote.io, ask_remote(remote.client, request, {.retries = 1}));
  CHECK((refused.end().error->code == ErrorCode::invalid_argument));
  request.sampling.temperature = 0.0f;
  CHECK(!run(remote.io, ask_remote(remote.client, request, {.retries = 1})).end().error);
}

TEST_CASE("a server that was started again is found again") {
  asio::io_context io(1);
  apps::serve::Settings settings;
  auto first = std::make_unique<LiveServer>(scripted(), settings);
  ClientOptions options;
  options.port = first->grpc_port();
  options.reconnect_pause = options.reconnect_pause_max = std::chrono::milliseconds(1);
  options.reconnect_tries = 1'000'000;
  Client client(io.get_executor(), options);
  CHECK(!run(io, ask_remote(client, prompt(3))).end().error);
  first.reset();
  settings.grpc_port = options.port;
  LiveServer second(scripted(), settings);
  // It may not have been noticed yet that the first one went.
  CHECK(!run(io, ask_remote(client, prompt(3), {.retries = 1})).end().error);
}

TEST_CASE("requests that wait for a server that does not come back are told so") {
  asio::io_context io(1);
  auto server = std::make_unique<LiveServer>(scripted());
  ClientOptions options = Remote::at({}, server->grpc_port());
  options.reconnect_pause = options.reconnect_pause_max = std::chrono::milliseconds(1);
  Client client(io.get_executor(), options);
  CHECK(!run(io, ask_remote(client, prompt(3))).end().error);
  server.reset();
  const Answer told = run(io, ask_remote(client, prompt(3), {.retries = 1}));
  CHECK((told.end().error->code == ErrorCode::unavailable));
  CHECK(told.end().error->message.find("cannot reach") != std::string::npos);
}
