// When a stream over HTTP is written: in a beat, but for an end.
#include "apps/server/answers.hpp"
#include "base/stream.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

using namespace paceline;
namespace asio = boost::asio;

namespace {

Delta some_text() {
  Delta delta;
  delta.text = "def";
  delta.tokens = {7};
  return delta;
}

} // namespace

TEST_CASE("a stream's end cuts a writer's rest short, and nothing else does") {
  asio::io_context io;
  const auto callbacks = std::make_shared<base::Callbacks>(base::Callbacks::Mode::on_request);
  const auto first = std::make_shared<Stream::Impl>(
      1, [] {}, callbacks);
  const auto second = std::make_shared<Stream::Impl>(
      2, [] {}, callbacks);
  apps::serve::Answers answers(io.get_executor());
  answers.add(Stream(first));
  answers.add(Stream(second));
  bool rested = false;
  const auto rest = [&] {
    rested = false;
    const auto until = std::chrono::steady_clock::now() + std::chrono::hours(1);
    asio::co_spawn(io, answers.rest(until), [&](const std::exception_ptr& failed) {
      CHECK(!failed);
      rested = true;
    });
  };
  const auto go_on = [&] {
    callbacks->run_pending();
    io.restart();
    io.poll();
  };

  rest();
  first->deliver(some_text());
  second->deliver(some_text());
  go_on();
  CHECK(!rested);
  second->deliver(Finished{});
  go_on();
  CHECK(rested);

  rest(); // An end that has not been taken is not rested on,
  go_on();
  CHECK(rested);
  while (answers.try_next())
    go_on();

  rest(); // and one that has been is forgotten.
  first->deliver(some_text());
  go_on();
  CHECK(!rested);
  first->deliver(Finished{});
  go_on();
  CHECK(rested);
}
