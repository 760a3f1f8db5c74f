// An engine and a child that was forked from its process.
#include "tests/support/engine_fixture.hpp"
#include "tests/support/forked.hpp"
#include "tests/support/requests.hpp"

#include <optional>
#include <thread>

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions small() {
  EngineOptions options;
  options.target = ScriptedPair{.context = 4096}.target();
  options.drafters.clear();
  options.devices = {"sim:1ms"};
  options.kv_memory_bytes = std::size_t(1) << 20;
  return options;
}

} // namespace

TEST_CASE("a forked child is refused its parent's engine, and ends it and its streams unharmed") {
  std::optional<Engine> engine = open_engine(small());
  std::optional<Stream> running = submit(*engine, of_tokens(200));
  std::optional<Stream> ended = submit(*engine, of_tokens(3));
  ended->on_ready([] {});
  std::thread([&] { // an end that is there to be read
    while (engine->metrics().finished == 0)
      std::this_thread::yield();
  })
      .join();
  const int wrong = in_child([&] {
    int unexpected = 0;
    const auto expect = [&](bool so) { unexpected += !so; };
    const auto refused = engine->submit(of_tokens(3));
    expect(!refused && refused.error().code == ErrorCode::unavailable);
    expect(!engine->complete(of_tokens(3)));
    for (auto* stream : {&running, &ended}) {
      (*stream)->on_ready([] {});
      (*stream)->on_end([] {});
      (*stream)->cancel();
      expect(!(*stream)->next());
      expect(!(*stream)->try_next());
      stream->reset();
    }
    expect(engine->metrics().finished == 0);
    expect(bool(engine->shutdown()));
    engine.reset();
    return unexpected;
  });
  CHECK(wrong == 0);
  CHECK(read_all(*running).tokens.size() == 200); // the parent's went on
  CHECK(read_all(*ended).tokens.size() == 3);
}

TEST_CASE("a stream that outlived its engine ends in a forked child, too") {
  std::optional<Stream> stream;
  {
    Engine engine = open_engine(small());
    stream = submit(engine, of_tokens(200));
    stream->on_end([] {});
  }
  CHECK(in_child([&] {
          stream.reset();
          return 0;
        }) == 0);
}
