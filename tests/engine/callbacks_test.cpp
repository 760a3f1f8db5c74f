// What the functions given to a stream may do, and what they cannot do to others.
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

using namespace paceline;
using namespace paceline::testing;

namespace {

Engine open(const std::string& device = "sim:1us") {
  EngineOptions options;
  options.target = ScriptedPair{.context = 4096}.target();
  options.drafters.clear();
  options.devices = {device};
  options.kv_memory_bytes = std::size_t(1) << 20;
  return open_engine(options);
}

/// Asks for what takes most of a minute at 10 ms a token.
Stream endless(Engine& engine) {
  return submit(engine, of_tokens(4000));
}
constexpr const char* slow = "sim:10ms";

/// Something that happens once, on another thread, which may be on its way out of `come` when this
/// goes.
class Moment {
public:
  void come() {
    const auto state = state_;
    if (!state->came.exchange(true))
      state->told.set_value();
  }
  /// False: it does not come, and the test goes on to fail rather than to hang.
  bool await() const {
    return state_->when.wait_for(std::chrono::minutes(1)) == std::future_status::ready;
  }
  bool came() const { return state_->came; }

private:
  struct State {
    std::atomic<bool> came{false};
    std::promise<void> told;
    std::shared_future<void> when = told.get_future().share();
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Streams are declared behind what their functions use: their ends wait for these.

} // namespace

TEST_CASE("what callbacks throw is counted, and neither their stream nor others notice") {
  Engine engine = open();
  const auto expected = ask(engine, of_tokens(40)).tokens;
  Moment ended;
  Stream throwing = submit(engine, of_tokens(40));
  throwing.on_ready([] { throw std::runtime_error("a caller's mistake"); });
  throwing.on_end([&] {
    ended.come();
    throw 7;
  });
  CHECK(ended.await());
  CHECK(read_all(throwing).tokens == expected);
  CHECK(ask(engine, of_tokens(40)).tokens == expected);
  while (engine.metrics().callback_failures < 2)
    std::this_thread::yield();
}

TEST_CASE(
    "callbacks run neither on the caller's thread nor where the engine works, one at a time") {
  Engine engine = open();
  std::atomic<int> inside{0};
  std::atomic<int> calls{0};
  Moment ended;
  const auto caller = std::this_thread::get_id();
  const auto look = [&] {
    CHECK(++inside == 1);
    CHECK(std::this_thread::get_id() != caller);
    const bool first = calls++ == 0;
    while (first && engine.metrics().finished == 0)
      std::this_thread::yield(); // what comes meanwhile waits for this one
    --inside;
  };
  Stream stream = submit(engine, of_tokens(400));
  stream.on_ready(look);
  stream.on_end([&] {
    look();
    ended.come();
  });
  CHECK(ended.await());
  CHECK(calls >= 2);
  stream.on_ready(look); // there is something to be read already: not on this thread, either
}

TEST_CASE("a stream's end waits for its callback, and cancels the request meanwhile") {
  Engine engine = open(slow);
  Moment began;
  Moment go_on;
  std::atomic<bool> left{false};
  std::optional<Stream> stream = endless(engine);
  stream->on_ready([&] {
    began.come();
    go_on.await();
    left = true;
  });
  CHECK(began.await());
  std::thread owner([&] {
    stream.reset();
    CHECK(left);
  });
  while (engine.metrics().finished == 0)
    std::this_thread::yield();
  go_on.come();
  owner.join();
}

TEST_CASE("a callback that goes on and on holds up neither other requests nor their callbacks") {
  Engine engine = open();
  Moment go_on;
  std::array<Moment, 3> began;
  std::vector<Stream> stuck;
  for (Moment& one : began) {
    stuck.push_back(submit(engine, of_tokens(4)));
    stuck.back().on_ready([&] {
      one.come();
      go_on.await();
    });
  }
  for (const Moment& one : began)
    CHECK(one.await());
  Moment heard;
  Stream other = submit(engine, of_tokens(40));
  other.on_end([&] { heard.come(); });
  CHECK(heard.await());
  CHECK(read_all(other).tokens.size() == 40);
  engine.shutdown();
  for (Stream& stream : stuck)
    CHECK(read_all(stream).tokens.size() == 4); // reading goes on, too
  go_on.come();
}

TEST_CASE("a callback may read, ask, and end its stream") {
  Engine engine = open();
  Answer own;
  std::size_t other = 0;
  Moment over;
  std::optional<Stream> stream = submit(engine, of_tokens(40));
  stream->on_ready([&] {
    if (over.came())
      return;
    own = read_all(*stream);
    other = engine.complete(of_tokens(7)).value().tokens.size();
    stream.reset();
    over.come();
  });
  CHECK(over.await());
  CHECK(own.tokens.size() == 40);
  CHECK(other == 7);
}

TEST_CASE("a stream that only its callback holds goes with it") {
  Engine engine = open(slow);
  Moment called;
  {
    const auto stream = std::make_shared<Stream>(endless(engine));
    stream->on_ready([stream, &called] {
      called.come();
      stream->on_ready(nullptr);
    });
  }
  CHECK(called.await());
  while (engine.metrics().finished == 0)
    std::this_thread::yield();
}

TEST_CASE("a callback may shut its engine down, or destroy it") {
  using namespace std::chrono_literals;
  for (const bool destroy : {false, true}) {
    CAPTURE(destroy);
    auto engine = std::make_unique<Engine>(open(slow));
    Moment over;
    Stream first = endless(*engine);
    Stream second = endless(*engine);
    first.on_ready([&, called = false]() mutable {
      if (std::exchange(called, true))
        return;
      if (destroy)
        engine.reset();
      else
        CHECK(engine->shutdown(1ms));
      over.come();
    });
    CHECK(over.await());
    for (Stream* stream : {&first, &second})
      CHECK(read_all(*stream).end().reason == FinishReason::cancelled);
  }
}

TEST_CASE("a shutdown ends however long it is asked to wait") {
  using namespace std::chrono_literals;
  for (const auto drain : {std::chrono::milliseconds::max(), std::chrono::milliseconds::min()}) {
    Engine engine = open();
    Stream stream = submit(engine, of_tokens(40));
    CHECK(engine.shutdown(drain));
    CHECK_FALSE(read_all(stream).end().error);
  }
}

TEST_CASE("in virtual time callbacks run inside next, and may end the engine there") {
  auto engine = std::make_unique<Engine>(open_engine(simulated()));
  Stream stream = submit(*engine, of_tokens(40));
  int calls = 0;
  stream.on_ready([&] {
    CHECK_FALSE(stream.next() == std::nullopt);
    if (++calls == 3)
      engine.reset();
    else if (calls == 5)
      throw std::runtime_error("a caller's mistake");
  });
  Stream other = submit(*engine, of_tokens(200));
  const Answer answer = read_all(other);
  CHECK(answer.end().reason == FinishReason::cancelled);
  CHECK(calls >= 3);
}
