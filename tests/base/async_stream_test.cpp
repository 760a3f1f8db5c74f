// AsyncStream without an engine: events come, and waits are called off, when the test says so.
#include "base/stream.hpp"
#include "paceline/asio.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <doctest/doctest.h>

using namespace paceline;
namespace asio = boost::asio;
using asio::use_awaitable;

namespace {

Delta token(TokenId id) {
  Delta delta;
  delta.tokens = {id};
  return delta;
}

struct AwaitedStream {
  /// Runs what is due: the stream's functions, and handlers. Time-outs far away are not waited for.
  void run() {
    callbacks->run_pending();
    io.restart();
    while (io.poll() > 0)
      callbacks->run_pending();
  }
  auto next() {
    return [this](std::optional<Event> event) {
      ++completed;
      last = std::move(event);
    };
  }
  const std::vector<TokenId>& tokens() const { return std::get<Delta>(last.value()).tokens; }

  asio::io_context io;
  int cancels = 0;
  int completed = 0;
  std::optional<Event> last;
  std::shared_ptr<base::Callbacks> callbacks =
      std::make_shared<base::Callbacks>(base::Callbacks::Mode::on_request);
  std::shared_ptr<Stream::Impl> impl = std::make_shared<Stream::Impl>(
      1, [this] { ++cancels; }, callbacks);
  std::optional<AsyncStream> stream{std::in_place, io.get_executor(), Stream(impl)};
};

} // namespace

TEST_CASE("a wait that is called off completes with nothing, and the request goes on") {
  AwaitedStream world;
  for (const auto how : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                         asio::cancellation_type::total, asio::cancellation_type::all}) {
    const int before = world.completed;
    asio::cancellation_signal signal;
    world.stream->async_next(asio::bind_cancellation_slot(signal.slot(), world.next()));
    world.run();
    CHECK(world.completed == before);
    signal.emit(how);
    world.run();
    CHECK(world.completed == before + 1);
    CHECK(!world.last);
  }
  CHECK(world.cancels == 0);
  world.impl->deliver(token(7));
  world.stream->async_next(world.next());
  world.run();
  CHECK(world.tokens() == std::vector<TokenId>{7});
}

TEST_CASE("what a wait had got when it was called off is the next one's, in order") {
  AwaitedStream world;
  world.impl->deliver(token(7));
  asio::cancellation_signal signal;
  world.stream->async_next(asio::bind_cancellation_slot(signal.slot(), world.next()));
  signal.emit(asio::cancellation_type::total); // it has the event, and has not completed
  world.impl->deliver(token(8));
  world.impl->deliver(Finished{});
  world.run();
  CHECK(!world.last);
  std::vector<TokenId> seen;
  do {
    world.stream->async_next(world.next());
    world.run();
    if (world.last && std::holds_alternative<Delta>(*world.last))
      for (const TokenId id : world.tokens())
        seen.push_back(id);
  } while (world.last && !std::holds_alternative<Finished>(*world.last));
  CHECK(world.last);
  CHECK(seen == std::vector<TokenId>{7, 8});
}

TEST_CASE("operator|| of a read and a timer loses no event, Finished neither") {
  using namespace asio::experimental::awaitable_operators;
  AwaitedStream world;
  int tokens = 0;
  int called_off = 0;
  bool finished = false;
  const auto read = [&]() -> asio::awaitable<void> {
    while (!finished) {
      asio::steady_timer at_once(world.io, asio::steady_timer::time_point::min());
      auto first =
          co_await (world.stream->async_next(use_awaitable) || at_once.async_wait(use_awaitable));
      if (first.index() == 1) {
        ++called_off;
        world.impl->deliver(called_off < 20 ? Event(token(called_off)) : Event(Finished{}));
        continue;
      }
      auto& event = std::get<0>(first);
      REQUIRE(event);
      if (const auto* delta = std::get_if<Delta>(&*event))
        tokens += int(delta->tokens.size());
      finished = std::holds_alternative<Finished>(*event);
    }
  };
  asio::co_spawn(world.io, read(), asio::detached);
  for (int i = 0; i < 10'000 && !finished; ++i)
    world.run();
  CHECK(finished);
  CHECK(tokens == 19);
  CHECK(world.cancels == 0);
}

TEST_CASE("a wait of some time ends with it, and without it when something comes") {
  AwaitedStream world;
  world.stream->async_next_for(std::chrono::nanoseconds(0), world.next());
  world.io.restart();
  world.io.run();
  CHECK(world.completed == 1);
  CHECK(!world.last);
  world.stream->async_next_for(std::chrono::hours(1), world.next());
  world.run();
  CHECK(world.completed == 1);
  world.impl->deliver(token(7));
  world.run();
  CHECK(world.completed == 2);
  CHECK(world.tokens() == std::vector<TokenId>{7});
  world.io.restart();
  CHECK(world.io.run() == 0); // the hour is not waited for
}

TEST_CASE("a stream that goes cancels its request, whoever waits for it") {
  AwaitedStream world;
  world.stream->async_next(world.next());
  world.stream.reset();
  CHECK(world.cancels == 1);
  world.impl->deliver(Finished{});
  world.run();
  CHECK(world.completed == 1);
  CHECK(world.last);
}
