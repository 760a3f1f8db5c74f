// A caller whose memory ends in the middle of a call: the call throws, and the engine goes on.
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <thread>

namespace {

/// How many allocations of this thread from now on one fails; 0: none does.
thread_local long until_failure = 0;
thread_local bool goes_on_failing = false;
thread_local bool failed = false;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (until_failure == 1 || (until_failure > 0 && --until_failure == 0)) {
    failed = true;
    until_failure = goes_on_failing ? 1 : 0;
    throw std::bad_alloc();
  }
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, whole))
    return memory;
  throw std::bad_alloc();
}

} // namespace

// GCC 14 sees malloc through one of these and free through none.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t bytes) {
  return allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, std::size_t(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

using namespace paceline;
using namespace paceline::testing;

namespace {

EngineOptions options() {
  EngineOptions options;
  options.target = ScriptedPair{.context = 4096}.target();
  options.drafters = {ScriptedPair{.context = 4096}.draft()};
  options.devices = {"sim:1ms"}; // what is endless goes on for seconds
  options.draft_devices = {"sim:100us"};
  options.kv_memory_bytes = std::size_t(16) << 20;
  options.max_num_seqs = 2;
  options.max_waiting = 1;
  return options;
}
constexpr std::size_t places = 3;

Request small() {
  Request request = of_tokens(12);
  request.ignore_eos = true;
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  request.logprobs = true;
  request.top_logprobs = 2;
  request.stop = {"a stop that never comes"};
  return request;
}

Request endless() {
  Request request = of_tokens(4000);
  request.ignore_eos = true;
  return request;
}

/// Whether the n-th allocation of `call` failed: it alone, or all that come after it as well.
template <class Call>
bool fails_at(long n, bool goes_on, Call& call) {
  until_failure = n;
  goes_on_failing = goes_on;
  failed = false;
  try {
    call();
  } catch (const std::bad_alloc&) {
  }
  until_failure = 0;
  return failed;
}

/// Has each allocation of `call` fail in turn, up to the first time that it has none that does.
/// check: called after each time. Returns how many there were.
template <class Prepare, class Call, class Check>
int fail_each(Prepare prepare, Call call, Check check, bool goes_on) {
  for (int n = 1;; ++n) {
    CAPTURE(n);
    CAPTURE(goes_on);
    prepare();
    const bool again = fails_at(n, goes_on, call);
    check();
    if (!again)
      return n - 1;
  }
}
template <class Prepare, class Call, class Check>
int fail_each(Prepare prepare, Call call, Check check) {
  fail_each(prepare, call, check, true);
  return fail_each(prepare, call, check, false);
}

class Asked {
public:
  void works() {
    CHECK(ask_patiently(small()).tokens == expected_);
    std::vector<Stream> open;
    while (open.size() < places)
      open.push_back(submit_patiently(endless()));
    const auto beyond = engine.submit(small());
    REQUIRE_FALSE(beyond);
    CHECK(beyond.error().code == ErrorCode::overloaded);
  }
  /// Behind it a place is free: the one that its own request had.
  void await_place() { (void)ask_patiently(small()); }
  const std::vector<TokenId>& expected() const { return expected_; }

  /// What a call dropped may still have its place for a moment.
  Stream submit_patiently(const Request& request) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (;; std::this_thread::yield()) {
      auto stream = engine.submit(request);
      if (stream)
        return std::move(*stream);
      REQUIRE(stream.error().code == ErrorCode::overloaded);
      REQUIRE(std::chrono::steady_clock::now() < limit);
    }
  }

  Engine engine = open_engine(options());

private:
  Answer ask_patiently(const Request& request) {
    Stream stream = submit_patiently(request);
    return read_all(stream);
  }
  const std::vector<TokenId> expected_ = ask(engine, small()).tokens;
};

constexpr auto nothing = [] {};

} // namespace

TEST_CASE("a request is submitted, or it is not and nothing of it is left") {
  Asked asked;
  std::optional<Result<Stream>> stream;
  const Request request = small();
  const int failures = fail_each([&] { stream.reset(), asked.await_place(); },
                                 [&] { stream = asked.engine.submit(request); },
                                 [&] {
                                   if (stream && *stream)
                                     CHECK(read_all(**stream).tokens == asked.expected());
                                   stream.reset();
                                   asked.works();
                                 });
  CHECK(failures > 10);
  CHECK(asked.engine.shutdown());
}

TEST_CASE("who has no memory for an answer gets none, and others get theirs") {
  Asked asked;
  std::optional<Result<Completion>> answer;
  const Request request = small();
  const int failures = fail_each([&] { answer.reset(), asked.await_place(); },
                                 [&] { answer = asked.engine.complete(request); },
                                 [&] {
                                   if (answer && *answer)
                                     CHECK((*answer)->tokens == asked.expected());
                                   asked.works();
                                 });
  CHECK(failures > 10);
  CHECK(asked.engine.shutdown());
}

TEST_CASE("to cancel a request, to drop its stream or to read it takes no memory") {
  Asked asked;
  std::optional<Stream> stream;
  const auto begin = [&] { stream = asked.submit_patiently(endless()); };
  CHECK(fail_each(
            begin, [&] { stream->cancel(); },
            [&] { CHECK(read_all(*stream).end().reason == FinishReason::cancelled); }) == 0);
  CHECK(fail_each(
            begin, [&] { stream.reset(); }, [&] { asked.works(); }) == 0);
  std::optional<Event> event;
  CHECK(fail_each(
            begin, [&] { event = stream->next(); }, [&] { CHECK(event); }) == 0);
}

TEST_CASE("a function that a stream could not take may be given again") {
  Asked asked;
  std::optional<Stream> stream;
  std::atomic<int> told{0};
  const auto tell = [&] { stream->on_end([&told] { ++told; }); };
  const auto wake = [&] { stream->on_ready([&told] { ++told; }); };
  for (const bool end : {true, false})
    fail_each(
        [&] {
          stream = asked.submit_patiently(small());
          told = 0;
        },
        [&] { end ? tell() : wake(); },
        [&] {
          if (failed)
            end ? tell() : wake();
          while (told == 0)
            std::this_thread::yield();
          stream.reset();
        });
  asked.works();
}

TEST_CASE("questions that lack memory are asked again") {
  Asked asked;
  const auto questions = [&] {
    (void)asked.engine.tokenize("one two");
    (void)asked.engine.detokenize({1, 2, 3});
    (void)asked.engine.render_chat({{"user", "hello"}});
    (void)asked.engine.chat_stops();
    (void)asked.engine.target();
    (void)asked.engine.draft_model();
    (void)asked.engine.metrics();
  };
  fail_each(nothing, questions, nothing);
  asked.works();
}

TEST_CASE("an engine that could not shut down can be told so again") {
  std::optional<Engine> engine;
  std::optional<Stream> stream;
  fail_each(
      [&] {
        stream.reset();
        engine.emplace(open_engine(options()));
        stream = submit(*engine, endless());
      },
      [&] { (void)engine->shutdown(std::chrono::milliseconds(0)); },
      [&] {
        CHECK(engine->shutdown(std::chrono::milliseconds(0)));
        CHECK(read_all(*stream).end().reason == FinishReason::cancelled);
        CHECK_FALSE(engine->submit(small()));
      });
}

TEST_CASE("an engine ends whatever allocation of its end fails") {
  std::optional<Engine> engine;
  fail_each([&] { engine.emplace(open_engine(options())); }, [&] { engine.reset(); }, nothing,
            false);
}

TEST_CASE("an engine opens, or there is none") {
  std::optional<Result<Engine>> engine;
  const EngineOptions asked = options();
  const int failures =
      fail_each([&] { engine.reset(); }, [&] { engine = Engine::open(asked); }, nothing, false);
  CHECK(failures > 100);
  REQUIRE((engine && *engine));
  CHECK(ask(**engine, small()).tokens.size() == 12);
}
