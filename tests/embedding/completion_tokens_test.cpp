// Every operation of paceline/asio.hpp and paceline/client.hpp with every completion token that
// Asio has, whichever Boost that is of.
#include "paceline/client.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION >= 108600
#include <boost/asio/cancel_after.hpp>
#endif

using namespace paceline;
using namespace paceline::testing;
namespace asio = boost::asio;
using asio::use_awaitable;

namespace {

/// A handler that says that it was called, and cannot be copied.
struct MoveOnly {
  int* calls;
  std::unique_ptr<int> own = std::make_unique<int>(0);
  template <class... Values>
  void operator()(Values&&...) {
    ++*calls;
  }
};

/// Runs what was begun to its end.
void run(asio::io_context& io) {
  io.restart();
  io.run();
}

/// begin(token) begins the operation; one at a time.
template <class Begin>
void check_tokens(asio::io_context& io, Begin begin) {
  int calls = 0;
  int expected = 0;
  const auto told = [&calls](auto&&...) { ++calls; };
  const auto check = [&] {
    run(io);
    CHECK(calls == ++expected);
  };
  begin(told);
  check();
  begin(MoveOnly{&calls});
  check();
  begin(asio::bind_executor(asio::make_strand(io), MoveOnly{&calls}));
  check();
  asio::cancellation_signal signal;
  begin(asio::bind_cancellation_slot(signal.slot(), MoveOnly{&calls}));
  check();
  begin(asio::detached);
  run(io);
  auto later = begin(asio::use_future);
  run(io);
  later.get();

  // What has not begun may be copied, and begun from a copy.
  const auto whole = begin(asio::deferred);
  auto copy = whole;
  whole(told);
  check();
  std::move(copy)(MoveOnly{&calls});
  check();
  begin(asio::as_tuple(asio::deferred))(told);
  check();
#if BOOST_VERSION >= 108600
  begin(asio::cancel_after(std::chrono::hours(1), told));
  check();
#endif
}

template <class Begin>
void check_coroutines(asio::io_context& io, Begin begin) {
  const auto all = [&]() -> asio::awaitable<int> {
    co_await begin(use_awaitable);
    co_await begin(asio::as_tuple(use_awaitable));
    co_await begin(asio::deferred);
    co_await begin(asio::as_tuple(asio::deferred));
    co_await begin(asio::bind_executor(io.get_executor(), use_awaitable));
    co_return 5;
  };
  auto done = asio::co_spawn(io, all(), asio::use_future);
  run(io);
  CHECK(done.get() == 5);
}

template <class Begin>
void check_every_token(asio::io_context& io, Begin begin) {
  check_tokens(io, begin);
  check_coroutines(io, begin);
}

Engine open_pair() {
  EngineOptions options;
  options.target = ScriptedPair{}.target();
  options.drafters.clear();
  options.devices = {"sim:1us"};
  return open_engine(options);
}

} // namespace

TEST_CASE("every operation of an engine takes every completion token") {
  asio::io_context io(1);
  Engine engine = open_pair();
  AsyncEngine service(io.get_executor(), engine);
  check_every_token(io, [&](auto&& token) {
    return service.async_submit(of_tokens(3), std::forward<decltype(token)>(token));
  });
  check_every_token(io, [&](auto&& token) {
    return service.async_complete(of_tokens(3), std::forward<decltype(token)>(token));
  });
  auto submitted = service.async_submit(of_tokens(40), asio::use_future);
  run(io);
  AsyncStream stream = std::move(submitted.get().value());
  check_every_token(
      io, [&](auto&& token) { return stream.async_next(std::forward<decltype(token)>(token)); });
  check_every_token(io, [&](auto&& token) {
    return stream.async_next_for(std::chrono::hours(1), std::forward<decltype(token)>(token));
  });
  check_every_token(io, [&](auto&& token) {
    return service.async_shutdown(std::chrono::milliseconds(0),
                                  std::forward<decltype(token)>(token));
  });
}

TEST_CASE("every operation of a client takes every completion token") {
  asio::io_context io(1);
  Client client(io.get_executor(), {.port = 1, .reconnect_tries = 1}); // nobody is there
  check_every_token(
      io, [&](auto&& token) { return client.async_connect(std::forward<decltype(token)>(token)); });
  check_every_token(
      io, [&](auto&& token) { return client.async_health(std::forward<decltype(token)>(token)); });
  check_every_token(io, [&](auto&& token) {
    return client.async_submit(of_tokens(3), {.retries = 0}, std::forward<decltype(token)>(token));
  });
  check_every_token(io, [&](auto&& token) {
    return client.async_complete(of_tokens(3), std::forward<decltype(token)>(token));
  });
}
