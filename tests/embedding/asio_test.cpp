// paceline/asio.hpp: every kind of completion token, executors, cancellation.
#include "paceline/asio.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

using namespace paceline;
using namespace paceline::testing;
namespace asio = boost::asio;
using asio::use_awaitable;

namespace {

/// An io_context, and an engine that outlives none of it.
struct World {
  explicit World(const std::string& device = "sim:1us") : engine(open(device)) {}

  static Engine open(const std::string& device) {
    EngineOptions options;
    options.target = ScriptedPair{.context = 4096}.target();
    options.drafters.clear();
    options.devices = {device};
    options.kv_memory_bytes = std::size_t(1) << 20;
    return open_engine(options);
  }
  /// Runs a coroutine to its end.
  template <class T>
  T run(asio::awaitable<T> work) {
    auto result = asio::co_spawn(io, std::move(work), asio::use_future);
    io.restart();
    io.run();
    return result.get();
  }

  asio::io_context io{1};
  Engine engine;
  AsyncEngine service{io.get_executor(), engine};
};

/// Returns a request that takes most of a minute at 10 ms a token.
Request endless() {
  return of_tokens(4000);
}
constexpr const char* slow = "sim:10ms";

asio::awaitable<Answer> read_stream(AsyncStream stream) {
  Answer answer;
  while (auto event = co_await stream.async_next(use_awaitable))
    answer.add(std::move(*event));
  CHECK(!co_await stream.async_next(use_awaitable)); // and none after that
  co_return answer;
}

asio::awaitable<Answer> ask_async(AsyncEngine& service, Request request) {
  auto stream = co_await service.async_submit(std::move(request), use_awaitable);
  co_return co_await read_stream(std::move(stream.value()));
}

} // namespace

TEST_CASE(
    "coroutines, callbacks, futures, deferred and as_tuple give what the engine itself gives") {
  World world;
  const auto expected = ask(world.engine, of_tokens(30)).tokens;
  CHECK(world.run(ask_async(world.service, of_tokens(30))).tokens == expected);

  std::vector<TokenId> called;
  world.service.async_complete(of_tokens(30),
                               [&](Result<Completion> answer) { called = answer.value().tokens; });
  world.io.restart();
  world.io.run();
  CHECK(called == expected);

  auto future = world.service.async_complete(of_tokens(30), asio::use_future);
  world.io.restart();
  world.io.run();
  CHECK(future.get().value().tokens == expected);

  const auto composed = [](AsyncEngine& service) -> asio::awaitable<std::vector<TokenId>> {
    auto operation = service.async_complete(of_tokens(30), asio::deferred);
    auto [answer] = co_await std::move(operation)(asio::as_tuple(use_awaitable));
    co_return answer.value().tokens;
  };
  CHECK(world.run(composed(world.service)) == expected);
}

TEST_CASE("what is refused is a value that says how to mend it") {
  World world;
  Request bad = of_tokens(3);
  bad.sampling.top_p = 7.0f;
  auto submitted = world.service.async_submit(bad, asio::use_future);
  auto completed = world.service.async_complete(bad, asio::use_future);
  world.io.run();
  const auto refused = submitted.get();
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::invalid_argument);
  CHECK(refused.error().text().find("give a number") != std::string::npos);
  CHECK(!completed.get());
}

TEST_CASE("handlers run on their own executors, and never on a thread of the engine") {
  asio::thread_pool pool(1); // outlives the engine, whose thread posts to it
  World world;
  const auto thread_of = [](auto& context) {
    return asio::post(context, asio::use_future([] { return std::this_thread::get_id(); })).get();
  };
  const auto pool_thread = thread_of(pool);
  const auto strand = asio::make_strand(pool);
  auto handled = std::make_shared<std::promise<int>>();
  AsyncEngine service(pool.get_executor(), world.engine);
  // No executor: the object's own.
  service.async_submit(of_tokens(50), [&, handled](Result<AsyncStream> submitted) {
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
  pool.join();
}

TEST_CASE("cancelling a wait ends the wait, loses nothing, and the request goes on") {
  World world(slow);
  const auto expected = ask(world.engine, of_tokens(12)).tokens;
  asio::cancellation_signal signal;
  const auto read = [&](AsyncEngine& service) -> asio::awaitable<Answer> {
    auto stream = co_await service.async_submit(of_tokens(12), use_awaitable);
    Answer answer;
    int called_off = 0;
    while (answer.ends.empty()) {
      asio::post(co_await asio::this_coro::executor,
                 [&] { signal.emit(asio::cancellation_type::total); });
      auto event =
          co_await stream->async_next(asio::bind_cancellation_slot(signal.slot(), use_awaitable));
      if (!event) { // a wait that is called off has taken nothing
        ++called_off;
        event = co_await stream->async_next(use_awaitable);
      }
      answer.add(std::move(event.value()));
    }
    CHECK(called_off > 0);
    co_return answer;
  };
  const Answer answer = world.run(read(world.service));
  CHECK(answer.end().reason == FinishReason::length);
  CHECK(answer.tokens == expected);
}

TEST_CASE("what a wait that lost a race had got is the next one's") {
  using namespace asio::experimental::awaitable_operators;
  World world(slow);
  const auto expected = ask(world.engine, of_tokens(30)).tokens;
  const auto read = [](AsyncEngine& service) -> asio::awaitable<Answer> {
    auto stream = co_await service.async_submit(of_tokens(30), use_awaitable);
    asio::steady_timer at_once(service.get_executor());
    Answer answer;
    while (answer.ends.empty()) {
      at_once.expires_at(asio::steady_timer::time_point::min());
      auto first =
          co_await (stream->async_next(use_awaitable) || at_once.async_wait(use_awaitable));
      std::optional<Event> event =
          first.index() == 0 ? std::move(std::get<0>(first)) : std::nullopt;
      if (!event)
        event = co_await stream->async_next(use_awaitable);
      answer.add(std::move(event.value()));
    }
    co_return answer;
  };
  const Answer answer = world.run(read(world.service));
  CHECK(answer.end().reason == FinishReason::length);
  CHECK(answer.tokens == expected);
}

TEST_CASE("a wait of some time ends without an event, and the request goes on") {
  World world(slow);
  const auto expected = ask(world.engine, of_tokens(8)).tokens;
  const auto read = [](AsyncEngine& service) -> asio::awaitable<Answer> {
    auto stream = co_await service.async_submit(of_tokens(8), use_awaitable);
    CHECK(!co_await stream->async_next_for(std::chrono::nanoseconds(1), use_awaitable));
    Answer answer;
    while (answer.ends.empty())
      if (auto event = co_await stream->async_next_for(std::chrono::hours(1), use_awaitable))
        answer.add(std::move(*event));
    CHECK(!co_await stream->async_next_for(std::chrono::hours(1), use_awaitable)); // at once
    co_return answer;
  };
  CHECK(world.run(read(world.service)).tokens == expected);
}

TEST_CASE("async_complete is cancelled as a whole") {
  World world(slow);
  asio::cancellation_signal signal;
  std::optional<FinishReason> reason;
  world.service.async_complete(
      endless(), asio::bind_cancellation_slot(signal.slot(), [&](Result<Completion> answer) {
        reason = answer.value().end.reason;
      }));
  asio::steady_timer timer(world.io, std::chrono::milliseconds(30));
  timer.async_wait([&](auto) { signal.emit(asio::cancellation_type::total); });
  world.io.run();
  CHECK(reason == FinishReason::cancelled);
}

TEST_CASE("a race against a timer ends the request") {
  using namespace asio::experimental::awaitable_operators;
  World world(slow);
  const auto raced = [](AsyncEngine& service) -> asio::awaitable<std::size_t> {
    auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, std::chrono::milliseconds(20));
    const auto winner = co_await (service.async_complete(endless(), use_awaitable) ||
                                  timer.async_wait(use_awaitable));
    co_return winner.index();
  };
  CHECK(world.run(raced(world.service)) == 1);
  const auto unused = [&] { return world.engine.metrics().kv_pages_used == 0; };
  while (!unused()) // not abandoned: ended, and its pages freed
    std::this_thread::yield();
}

TEST_CASE("an end is told before what stands in front of it is read, and to who asks late, too") {
  World world;
  world.run([](AsyncEngine& service) -> asio::awaitable<bool> {
    auto stream = co_await service.async_submit(of_tokens(30), use_awaitable);
    for (int i = 0; i < 2; ++i) {
      asio::steady_timer told(service.get_executor(), asio::steady_timer::time_point::max());
      stream->on_end([&told] { told.cancel(); });
      co_await told.async_wait(asio::as_tuple(use_awaitable));
    }
    const auto first = co_await stream->async_next(use_awaitable);
    CHECK(std::get<Delta>(first.value()).tokens.size() == 30);
    const auto last = co_await stream->async_next(use_awaitable);
    CHECK(std::get<Finished>(last.value()).reason == FinishReason::length);
    co_return true;
  }(world.service));
}

TEST_CASE("a stream that goes while an operation waits completes it") {
  World world(slow);
  std::optional<Event> last;
  bool completed = false;
  world.service.async_submit(endless(), [&](Result<AsyncStream> submitted) {
    AsyncStream stream = std::move(submitted.value());
    stream.async_next([&](std::optional<Event> event) {
      last = std::move(event);
      completed = true;
    });
  });
  world.io.run();
  CHECK(completed);
  CHECK(last);
}

TEST_CASE("a shutdown leaves the executor free, and completes when all has ended") {
  World world(slow);
  asio::cancellation_signal signal;
  std::optional<FinishReason> reason;
  bool down = false;
  world.service.async_complete(
      endless(), asio::bind_cancellation_slot(signal.slot(), [&](Result<Completion> answer) {
        reason = answer.value().end.reason;
      }));
  asio::post(world.io, [&] { // behind the submission
    world.service.async_shutdown(std::chrono::minutes(10), [&](Result<void> ended) {
      CHECK(ended);
      down = true;
    });
    // A shutdown that held the executor would wait for all tokens before this handler runs.
    asio::post(world.io, [&] {
      CHECK(!down);
      signal.emit(asio::cancellation_type::total);
    });
  });
  world.io.run();
  CHECK(down);
  CHECK(reason == FinishReason::cancelled);
  CHECK(!world.engine.submit(of_tokens(1)));
}
