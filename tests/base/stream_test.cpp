// The hand-over of events, without an engine: functions run when the test says so.
#include "base/stream.hpp"

#include <chrono>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace paceline;

namespace {

Delta some_text() {
  Delta delta;
  delta.text = "def";
  delta.tokens = {7};
  return delta;
}

struct OpenedStream {
  OpenedStream()
      : impl(std::make_shared<Stream::Impl>(
            1, [this] { ++cancels; }, callbacks)),
        stream(impl) {}

  int cancels = 0;
  std::shared_ptr<base::Callbacks> callbacks =
      std::make_shared<base::Callbacks>(base::Callbacks::Mode::on_request);
  std::shared_ptr<Stream::Impl> impl;
  std::optional<Stream> stream;
};

} // namespace

TEST_CASE(
    "a stream calls nobody itself, once for what came meanwhile, and at first if there is any") {
  OpenedStream world;
  int calls = 0;
  world.impl->deliver(some_text());
  world.stream->on_ready([&] { ++calls; });
  CHECK(calls == 0);
  world.callbacks->run_pending();
  CHECK(calls == 1);
  world.impl->deliver(some_text());
  world.impl->deliver(some_text());
  world.callbacks->run_pending();
  CHECK(calls == 2);
  world.stream->on_ready(nullptr);
  world.impl->deliver(Finished{});
  world.callbacks->run_pending();
  CHECK(calls == 2);
}

TEST_CASE("an end is told once, also to who asks late") {
  OpenedStream world;
  int told = 0;
  world.stream->on_end([&] { ++told; });
  world.impl->deliver(some_text());
  world.callbacks->run_pending();
  CHECK(told == 0);
  world.impl->deliver(Finished{});
  world.callbacks->run_pending();
  CHECK(told == 1);
  world.stream->on_end([&] { ++told; });
  world.callbacks->run_pending();
  world.callbacks->run_pending();
  CHECK(told == 2);
}

TEST_CASE("a stream that is gone calls nobody, though a call was due") {
  OpenedStream world;
  int calls = 0;
  world.stream->on_ready([&] { ++calls; });
  world.stream->on_end([&] { ++calls; });
  world.impl->deliver(Finished{});
  world.stream.reset();
  world.callbacks->run_pending();
  CHECK(calls == 0);
  CHECK(world.cancels == 0); // it had ended
}

TEST_CASE("a request is cancelled once, however often that is asked for") {
  OpenedStream world;
  for (int i = 0; i < 3; ++i)
    world.stream->cancel();
  world.stream.reset();
  CHECK(world.cancels == 1);
}

TEST_CASE("what a callback throws is counted, and the next one runs") {
  OpenedStream world;
  bool told = false;
  world.stream->on_ready([] { throw std::runtime_error("a caller's mistake"); });
  world.stream->on_end([&] { told = true; });
  world.impl->deliver(Finished{});
  world.callbacks->run_pending();
  CHECK(told);
  CHECK(world.callbacks->failures() == 1);
}

TEST_CASE("what a callback holds goes with it, outside of every lock") {
  OpenedStream world;
  struct Asks {
    Stream& stream;
    ~Asks() { (void)stream.try_next(); }
  };
  const auto holding = [&] { return [held = std::make_shared<Asks>(Asks{*world.stream})] {}; };
  world.stream->on_ready(holding());
  world.stream->on_ready(holding());
  world.stream->on_end(holding());
  world.impl->deliver(Finished{});
  world.callbacks->run_pending();
  world.stream->on_end(holding());
  world.stream.reset();
}

TEST_CASE("a wait of some time ends without an event, or with what came") {
  OpenedStream world;
  CHECK(!world.stream->next_for(std::chrono::nanoseconds(1)));
  CHECK(!world.stream->next_for(std::chrono::nanoseconds::min()));
  world.impl->deliver(some_text());
  CHECK(world.stream->next_for(std::chrono::nanoseconds::max()));
  CHECK(!world.stream->next_for(std::chrono::nanoseconds(0)));
  world.impl->deliver(Finished{});
  CHECK(world.stream->next_for(std::chrono::nanoseconds(0)));
  CHECK(!world.stream->next_for(std::chrono::nanoseconds::max())); // at once
  CHECK(world.cancels == 0);
}
