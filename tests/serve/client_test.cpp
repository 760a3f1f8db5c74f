// paceline/client.hpp against a server: the answers are the engine's own, whatever way they are
// waited for.
#include "tests/serve/remote.hpp"
#include "tests/support/forked.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <doctest/doctest.h>
#include <future>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::Settings;
namespace asio = boost::asio;
using asio::use_awaitable;
using namespace std::chrono_literals;

namespace {

constexpr const char* slow_device = "sim:1ms";

std::vector<Request> various() {
  std::vector<Request> requests(10);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = "def fibonacci(n):\n";
    requests[i].max_tokens = 24;
    requests[i].sampling.seed = i;
    requests[i].sampling.temperature = 1.0f;
  }
  requests[0].sampling.temperature = 0.0f;
  requests[1].logprobs = requests[1].prompt_logprobs = true;
  requests[1].top_logprobs = 4;
  requests[2].stop = {"return", "\n\n"};
  requests[3].sampling.logit_bias = {{40, 3.0f}};
  requests[3].sampling.repetition_penalty = 1.25f;
  requests[4].speculation = SpeculationMode::off;
  requests[4].sampling.choice = 3;
  requests[5].logprobs = true;
  requests[5].logprobs_mode = LogprobsMode::processed;
  requests[5].sampling.top_k = 5;
  requests[6].prompt = "na\xc3\xafve \xff caf\xc3\xa9";
  requests[7].prompt.clear();
  requests[7].prompt_tokens = {10, 11, 12};
  requests[7].ignore_eos = true;
  requests[7].max_tokens = 200;
  requests[8].sampling.allowed_token_ids = {10, 11, 12, 13};
  requests[8].min_tokens = 20;
  requests[9].skip_special_tokens = false;
  requests[9].cache_salt = "mine";
  requests[9].priority = 1;
  return requests;
}

void check_same(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].token == b[i].token);
    CHECK(a[i].logprob == b[i].logprob);
    CHECK((a[i].top == b[i].top));
  }
}

void check_same(const Answer& a, const Answer& b) {
  CHECK(a.tokens == b.tokens);
  CHECK(a.text == b.text);
  check_same(a.logprobs, b.logprobs);
  REQUIRE(a.prompt.size() == b.prompt.size());
  for (std::size_t i = 0; i < a.prompt.size(); ++i) {
    CHECK(a.prompt[i].tokens == b.prompt[i].tokens);
    check_same(a.prompt[i].logprobs, b.prompt[i].logprobs);
  }
  CHECK((a.end().reason == b.end().reason));
  CHECK(a.end().stop_match == b.end().stop_match);
  CHECK(a.end().seed == b.end().seed);
  CHECK(a.end().reproducible == b.end().reproducible);
  CHECK(a.end().usage.prompt_tokens == b.end().usage.prompt_tokens);
  CHECK(a.end().usage.completion_tokens == b.end().usage.completion_tokens);
}

/// The thread that a context runs on.
std::thread::id thread_of(asio::thread_pool& pool) {
  return asio::post(pool, asio::use_future([] { return std::this_thread::get_id(); })).get();
}

} // namespace

TEST_CASE("many requests over one connection are each what the embedded engine gives") {
  Remote remote;
  const auto requests = various();
  const auto answers = ask_remotely(remote.io, remote.client, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    check_same(answers[i], ask(remote.server.engine(), requests[i]));
  }
  CHECK(remote.server.metric(R"(paceline_grpc_requests_total{engine="0",model_name="demo",)"
                             R"(outcome="accepted"})") == double(requests.size()));
  CHECK(remote.server.metric("paceline_grpc_connections") == 1);
  CHECK(remote.server.metric("vllm:time_to_first_token_seconds_count") == double(requests.size()));
}

TEST_CASE("callbacks, futures, coroutines, deferred and as_tuple complete a remote request") {
  Remote remote(scripted());
  const auto expected = ask(remote.server.engine(), prompt(30)).tokens;
  std::vector<TokenId> called;
  remote.client.async_complete(prompt(30),
                               [&](Result<Completion> answer) { called = answer.value().tokens; });
  auto future = remote.client.async_complete(prompt(30), asio::use_future);
  remote.io.run();
  CHECK(called == expected);
  CHECK(future.get().value().tokens == expected);
  const auto composed = [](Client& client) -> asio::awaitable<std::vector<TokenId>> {
    auto operation = client.async_complete(prompt(30), asio::deferred);
    auto [answer] = co_await std::move(operation)(asio::as_tuple(use_awaitable));
    co_return answer.value().tokens;
  };
  CHECK(run(remote.io, composed(remote.client)) == expected);
}

TEST_CASE("a client says who is there and how it is") {
  Settings settings;
  settings.model_names = {"one", "two"};
  Remote remote(scripted(), settings);
  auto info = remote.client.async_connect(asio::use_future);
  remote.io.run();
  const auto server = info.get();
  REQUIRE(server.has_value());
  CHECK(server->model == "one");
  CHECK(server->server.starts_with("paceline/"));
  CHECK(server->ready);
  auto asked = remote.client.async_health(asio::use_future);
  remote.io.restart();
  remote.io.run();
  const auto health = asked.get();
  REQUIRE(health.has_value());
  CHECK(health->ready);
  CHECK(health->healthy);
}

TEST_CASE("what the server refuses is a value with the engine's code and hint") {
  Settings settings;
  settings.max_open = 2;
  settings.max_prompt_tokens = 4;
  Remote remote(scripted(slow_device), settings);
  Request bad = prompt(3);
  bad.sampling.top_p = 7.0f;
  Request longer = prompt(3);
  longer.prompt.clear();
  longer.prompt_tokens = {1, 2, 3, 4, 5};
  const auto answers = ask_remotely(remote.io, remote.client, {bad, longer});
  CHECK((answers[0].end().error->code == ErrorCode::invalid_argument));
  CHECK(answers[0].end().error->hint == remote.server.engine().submit(bad).error().hint);
  CHECK(answers[1].end().error->text().find("4 is the most here") != std::string::npos);
  const auto crowd = [](Client& client) -> asio::awaitable<Error> {
    auto first = co_await client.async_submit(prompt(60'000), use_awaitable);
    auto second = co_await client.async_submit(prompt(60'000), use_awaitable);
    auto third = co_await client.async_submit(prompt(1), use_awaitable);
    REQUIRE(first.has_value());
    REQUIRE(second.has_value());
    co_return third.error();
  };
  CHECK((run(remote.io, crowd(remote.client)).code == ErrorCode::overloaded));
  remote.server.await_idle(); // dropped streams are cancelled
}

TEST_CASE("a cancelled stream ends as cancelled, and a deadline as deadline") {
  Remote remote(scripted(slow_device));
  const auto cancelled = [](Client& client) -> asio::awaitable<Answer> {
    auto stream = co_await client.async_submit(prompt(60'000), use_awaitable);
    Answer answer;
    while (auto event = co_await stream->async_next(use_awaitable)) {
      answer.add(std::move(*event));
      stream->cancel();
    }
    co_return answer;
  };
  CHECK((run(remote.io, cancelled(remote.client)).end().reason == FinishReason::cancelled));
  Request late = prompt(60'000);
  late.deadline = 20ms;
  const Answer answer = run(remote.io, ask_remote(remote.client, late));
  CHECK((answer.end().reason == FinishReason::deadline));
  Settings settings;
  settings.request_timeout = 20ms;
  Remote strict(scripted(slow_device), settings);
  const Answer cut = run(strict.io, ask_remote(strict.client, prompt(60'000)));
  CHECK((cut.end().reason == FinishReason::deadline));
}

TEST_CASE("cancelling a wait loses nothing, and cancelling a stream ends the remote request") {
  Remote remote(scripted(slow_device));
  asio::cancellation_signal signal;
  std::optional<FinishReason> reason;
  std::size_t tokens = 0;
  const auto read = [&](auto& self, const std::shared_ptr<AsyncStream>& stream) -> void {
    const auto took = [&, self, stream](std::optional<Event> event) {
      if (!event && !reason) { // the wait was called off, and the request goes on
        stream->cancel();
        self(self, stream);
      }
      if (!event)
        return;
      if (const auto* delta = std::get_if<Delta>(&*event))
        tokens += delta->tokens.size();
      else if (const auto* end = std::get_if<Finished>(&*event)) {
        reason = end->reason;
        CHECK(end->usage.completion_tokens == int(tokens));
      }
      self(self, stream);
      signal.emit(asio::cancellation_type::terminal); // of what waits now
    };
    stream->async_next(asio::bind_cancellation_slot(signal.slot(), took));
  };
  remote.client.async_submit(prompt(60'000), [&](Result<AsyncStream> stream) {
    read(read, std::make_shared<AsyncStream>(std::move(stream.value())));
  });
  remote.io.run();
  CHECK((reason == FinishReason::cancelled));
  CHECK(tokens > 0);

  using namespace asio::experimental::awaitable_operators;
  const auto race = [](Client& client) -> asio::awaitable<std::size_t> {
    asio::steady_timer soon(co_await asio::this_coro::executor, 1ms);
    const auto first = co_await (client.async_complete(prompt(60'000), use_awaitable) ||
                                 soon.async_wait(use_awaitable));
    co_return first.index();
  };
  CHECK(run(remote.io, race(remote.client)) == 1);
  remote.server.await_idle();
}

TEST_CASE("a submission that waits for a connection can be cancelled") {
  asio::io_context io(1);
  asio::ip::tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  ClientOptions options;
  options.port = silent.local_endpoint().port(); // connects, and hears nothing
  Client client(io.get_executor(), options);
  asio::cancellation_signal signal;
  std::optional<ErrorCode> submitted;
  client.async_submit(prompt(1), asio::bind_cancellation_slot(
                                     signal.slot(), [&](const Result<AsyncStream>& stream) {
                                       submitted = stream.error().code;
                                     }));
  signal.emit(asio::cancellation_type::terminal);
  io.run();
  CHECK((submitted == ErrorCode::cancelled));
}

TEST_CASE("handlers run on their own executors, and never on the client's thread") {
  asio::thread_pool pool(1);
  Remote remote(scripted());
  const auto pool_thread = thread_of(pool);
  const auto strand = asio::make_strand(pool);
  auto handled = std::make_shared<std::promise<int>>();
  {
    Client client(pool.get_executor(), Remote::at({}, remote.server.grpc_port()));
    client.async_submit(prompt(50), [&, handled](Result<AsyncStream> submitted) {
      CHECK(std::this_thread::get_id() == pool_thread);
      auto stream = std::make_shared<AsyncStream>(std::move(submitted.value()));
      const auto next = [&, handled, stream](auto& self, int events) -> void {
        const auto took = [&, handled, self, events](std::optional<Event> event) {
          CHECK(strand.running_in_this_thread());
          return event ? self(self, events + 1) : handled->set_value(events);
        };
        stream->async_next(asio::bind_executor(strand, took));
      };
      next(next, 0);
    });
    CHECK(handled->get_future().get() >= 2);
  }
  pool.join();
}

TEST_CASE("in a forked child a client is refused everything, and ends") {
  LiveServer server(scripted());
  asio::io_context io{1};
  std::optional<Client> client(std::in_place, io.get_executor(),
                               Remote::at(ClientOptions(), server.grpc_port()));
  const auto connected = client->async_connect(asio::use_future);
  io.run();
  const int wrong = in_child([&] {
    int unexpected = 0;
    const auto expect_refused = [&](const auto& result) {
      unexpected += result || result.error().code != ErrorCode::unavailable;
    };
    io.restart();
    client->async_connect(expect_refused);
    client->async_health(expect_refused);
    client->async_submit(prompt(3), expect_refused);
    client->async_complete(prompt(3), expect_refused);
    unexpected += io.run() < 4;
    client.reset();
    Client of_the_child(io.get_executor(), Remote::at(ClientOptions(), server.grpc_port()));
    of_the_child.async_connect(expect_refused);
    io.restart();
    unexpected += io.run() < 1;
    return unexpected;
  });
  CHECK(wrong == 0);
  CHECK(ask_remotely(io, *client, {prompt(3)})[0].tokens.size() == 3); // the parent's works
}

TEST_CASE("what a message cannot hold is refused by its field's name, and not left out") {
  Remote remote(scripted());
  Request request = prompt(3);
  request.stop = {"\xff"};
  const auto answers = ask_remotely(remote.io, remote.client, {request});
  REQUIRE(answers[0].end().error);
  CHECK(answers[0].end().error->code == ErrorCode::invalid_argument);
  CHECK(answers[0].end().error->message == "Request::stop is not UTF-8");
}

TEST_CASE("a client that goes cancels what runs, and what waits completes") {
  Remote remote(scripted(slow_device));
  auto client =
      std::make_unique<Client>(remote.io.get_executor(), Remote::at({}, remote.server.grpc_port()));
  std::optional<FinishReason> reason;
  const auto work = [&]() -> asio::awaitable<void> {
    auto stream = co_await client->async_submit(prompt(60'000), use_awaitable);
    client.reset();
    while (auto event = co_await stream->async_next(use_awaitable))
      if (const auto* end = std::get_if<Finished>(&*event))
        reason = end->reason;
  };
  asio::co_spawn(remote.io, work(), [](const std::exception_ptr& failed) { CHECK(!failed); });
  remote.io.run();
  CHECK((reason == FinishReason::cancelled));
  remote.server.await_idle();
}

TEST_CASE("a stream that nobody reads holds up no other on its connection") {
  Remote remote(scripted("sim:20us"));
  const auto work = [](Client& client) -> asio::awaitable<void> {
    Request scored = prompt(800);
    scored.logprobs = true;
    scored.top_logprobs = 20;
    auto unread = co_await client.async_submit(scored, use_awaitable);
    for (int i = 0; i < 10; ++i) {
      const auto answer = co_await client.async_complete(prompt(50), use_awaitable);
      CHECK(answer.value().tokens.size() == 50);
    }
    const Answer late = co_await read_stream(std::move(unread.value()));
    CHECK(late.tokens.size() == 800);
    CHECK(late.logprobs.size() == 800);
  };
  asio::co_spawn(remote.io, work(remote.client),
                 [](const std::exception_ptr& failed) { CHECK(!failed); });
  remote.io.run();
}

TEST_CASE("who is not there, or is not Paceline, is an error that says what to do") {
  asio::io_context io(1);
  const auto connect = [&io](ClientOptions options) {
    Client client(io.get_executor(), std::move(options));
    auto info = client.async_connect(asio::use_future);
    io.restart();
    io.run();
    auto server = info.get();
    REQUIRE(!server);
    CHECK(!server.error().hint.empty());
    return server.error();
  };
  std::uint16_t closed = 0;
  {
    asio::ip::tcp::acceptor taken(io, {asio::ip::address_v4::loopback(), 0});
    closed = taken.local_endpoint().port();
  }
  CHECK((connect(Remote::at({}, closed)).code == ErrorCode::unavailable));
  ClientOptions nowhere;
  nowhere.host = "no.such.host.invalid";
  CHECK(connect(nowhere).message.find("no.such.host.invalid") != std::string::npos);
  asio::ip::tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  ClientOptions impatient = Remote::at({}, silent.local_endpoint().port());
  impatient.connect_timeout = 5ms;
  CHECK(connect(impatient).message.find("in time") != std::string::npos);
  LiveServer server(scripted());
  CHECK((connect(Remote::at({}, server.port())).code == ErrorCode::unavailable)); // HTTP
}
