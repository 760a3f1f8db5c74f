// The open requests alone: what a scheduler would hear on one side, callers' streams on the other.
#include "scheduling/requests.hpp"

#include "models/synthetic/scripted.hpp"
#include "tests/support/pools.hpp"
#include "tests/support/recorder.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <set>

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

/// Leaves out one blank where a text begins, as SentencePiece's decoders do.
class Opening final : public text::Tokenizer {
public:
  std::vector<TokenId> encode(std::string_view text, bool special) const override {
    return words_->encode(text, special);
  }
  std::string bytes(TokenId id, bool special) const override { return words_->bytes(id, special); }
  std::string first_bytes(TokenId id, bool special, Tokenizer::Opening& opening) const override {
    opening.strip = known(id) ? 0 : opening.strip;
    return known(id) ? bytes(id, special).substr(1) : std::string();
  }
  Tokenizer::Opening opening() const override { return {false, 1}; }
  std::string piece(TokenId id) const override { return words_->piece(id); }
  int vocabulary() const override { return words_->vocabulary(); }
  bool known(TokenId id) const override { return words_->known(id); }
  std::vector<TokenId> special_ids() const override { return {}; }

private:
  std::shared_ptr<const text::Tokenizer> words_ =
      models::make_scripted_tokenizer("scripted:vocabulary=32").value();
};

struct RequestsWorld {
  explicit RequestsWorld(std::shared_ptr<const text::Tokenizer> tokenizer =
                             models::make_scripted_tokenizer("scripted:vocabulary=32").value())
      : requests({std::move(tokenizer), std::make_shared<base::Telemetry>(), 0}) {}

  std::shared_ptr<Recorder> submit(SequenceId id, std::vector<std::string> stop = {},
                                   std::optional<base::Duration> deadline = {},
                                   Tokens prompt = {1, 2}) {
    auto spec = std::make_shared<speculation::SequenceSpec>();
    spec->id = id;
    spec->prompt_tokens = int(prompt.size());
    spec->max_tokens = 100;
    spec->noise.seed = 40 + id;
    spec->deadline = deadline;
    auto caller = std::make_shared<Recorder>();
    take(requests.submit({spec, std::move(prompt), std::move(stop), true, caller}, now));
    return caller;
  }
  void commit(SequenceId id, int first, std::vector<TokenId> tokens, bool last = false) {
    take(requests.committed({{news(id, first, std::move(tokens), last)}}, now));
  }
  void take(Requests::Actions actions) {
    for (auto& action : actions)
      if (const auto* alarm = std::get_if<WakeAfter>(&action))
        alarms.insert(now + alarm->delay);
      else
        told.push_back(std::move(action));
  }
  /// What the scheduler was told next; fails if it was something else.
  template <class What>
  What next() {
    REQUIRE_FALSE(told.empty());
    const auto what = std::get_if<What>(&told.front());
    REQUIRE(what);
    What taken = std::move(*what);
    told.pop_front();
    return taken;
  }
  /// Runs until no alarm before `until` is left, and returns how many there were.
  int run(base::TimePoint until = base::TimePoint::max()) {
    int rang = 0;
    for (; !alarms.empty() && *alarms.begin() <= until; ++rang) {
      now = *alarms.begin();
      alarms.erase(alarms.begin());
      take(requests.time_passed(now));
    }
    return rang;
  }

  Requests requests;
  base::TimePoint now{};
  std::multiset<base::TimePoint> alarms;
  std::deque<Requests::Action> told;
};

} // namespace

TEST_CASE("a request is admitted, streams its tokens, ends once, and the scheduler hears of it") {
  RequestsWorld world;
  const auto caller = world.submit(7);
  const auto admitted = world.next<Admit>();
  CHECK(admitted.spec->id == 7);
  CHECK(admitted.tokens == Tokens{1, 2});
  world.commit(7, 0, {3, 4});
  world.commit(7, 2, {5}, true);
  CHECK(world.next<Abandon>().sequence == 7);
  CHECK(caller->answer.tokens == Tokens{3, 4, 5});
  CHECK(caller->answer.text == " 3 4 5");
  CHECK(caller->answer.end().reason == FinishReason::length);
  CHECK(caller->answer.end().seed == 47);
  CHECK(caller->answer.end().usage.completion_tokens == 3);
}

TEST_CASE("a blank that begins a text is left out, one that goes on after the prompt is shown") {
  RequestsWorld world(std::make_shared<Opening>());
  const auto begins = world.submit(1, {}, {}, {-1}); // a BOS, which reads as nothing
  const auto goes_on = world.submit(2);
  for (const SequenceId id : {1, 2})
    world.commit(id, 0, {3, 4}, true);
  CHECK(begins->answer.text == "3 4");
  CHECK(goes_on->answer.text == " 3 4");
}

TEST_CASE("tokens that come twice are delivered once, and none is skipped") {
  RequestsWorld world;
  const auto caller = world.submit(1);
  world.commit(1, 0, {3, 4});
  world.commit(1, 0, {3, 4});
  world.commit(1, 1, {4, 5, 6}); // a new scheduler's step overlaps what is known
  world.commit(1, 9, {9});       // after a gap: not what follows
  world.commit(1, 4, {7}, true);
  CHECK(caller->answer.tokens == Tokens{3, 4, 5, 6, 7});
}

TEST_CASE("a stop string ends the text before it, wherever tokens and steps are cut") {
  for (const std::vector<int>& steps : {std::vector{1, 1, 1, 1}, {2, 2}, {4}, {3, 1}}) {
    RequestsWorld world;
    const auto caller = world.submit(1, {"3 1"});
    const Tokens tokens{5, 13, 14, 6}; // " 5 13 14 6": the match ends inside the third token
    int first = 0;
    for (const int step : steps) {
      world.commit(1, first, {tokens.begin() + first, tokens.begin() + first + step});
      first += step;
    }
    CHECK(caller->answer.text == " 5 1");
    CHECK(caller->answer.tokens == Tokens{5, 13, 14});
    CHECK(caller->answer.end().reason == FinishReason::stop);
    CHECK(caller->answer.end().stop_match == "3 1");
  }
}

TEST_CASE("the end comes with the text that was held back for a stop string that did not come") {
  RequestsWorld world;
  const auto caller = world.submit(1, {" 5 6 7"});
  world.commit(1, 0, {5, 6});
  world.commit(1, 2, {8});
  world.commit(1, 3, {5, 6}, true);
  CHECK(caller->answer.text == " 5 6 8 5 6");
  CHECK(caller->answer.end().reason == FinishReason::length);
}

TEST_CASE("a failed sequence ends with its error, and its tokens stay") {
  RequestsWorld world;
  const auto caller = world.submit(1);
  world.commit(1, 0, {3});
  world.take(world.requests.failed(Failed{1, {ErrorCode::internal, "NaN", "use f32"}}, world.now));
  CHECK(caller->answer.tokens == Tokens{3});
  CHECK(caller->answer.end().reason == FinishReason::error);
  CHECK(caller->answer.end().error->message == "NaN");
}

TEST_CASE("behind a gap a sequence begins again from what is known") {
  RequestsWorld world;
  world.submit(1);
  world.next<Admit>();
  world.commit(1, 0, {3});
  world.commit(1, 2, {5});
  CHECK(world.next<Abandon>().sequence == 1);
  CHECK(world.next<Admit>().tokens == Tokens{1, 2, 3});
}

TEST_CASE("whoever begins anew gets every open request with all its tokens, and no other") {
  RequestsWorld world;
  world.submit(1);
  world.submit(2);
  world.commit(1, 0, {3}, true);
  world.commit(2, 0, {4, 5});
  const auto again = world.requests.all_again();
  REQUIRE(again.size() == 1);
  CHECK(std::get<Admit>(again[0]).spec->id == 2);
  CHECK(std::get<Admit>(again[0]).tokens == Tokens{1, 2, 4, 5});
}

TEST_CASE("a cancel ends a request once; late, repeated or unknown it is harmless") {
  RequestsWorld world;
  const auto caller = world.submit(1);
  world.commit(1, 0, {3});
  for (const SequenceId id : {1, 1, 99})
    world.take(world.requests.cancel(id, world.now));
  world.commit(1, 1, {4});
  world.take(world.requests.failed(Failed{1, {ErrorCode::internal, "late", ""}}, world.now));
  CHECK(caller->answer.end().reason == FinishReason::cancelled);
  CHECK(caller->answer.tokens == Tokens{3});
}

TEST_CASE("a deadline ends what is not finished by then, keeping what it has") {
  RequestsWorld world;
  const auto late = world.submit(1, {}, 50ms);
  const auto unhurried = world.submit(2);
  world.commit(1, 0, {3});
  world.run(world.now + 49ms);
  CHECK_FALSE(late->ended());
  world.run();
  CHECK(world.now.time_since_epoch() == 50ms);
  CHECK(late->answer.end().reason == FinishReason::deadline);
  CHECK(late->answer.tokens == Tokens{3});
  CHECK_FALSE(unhurried->ended());
}

TEST_CASE("a deadline that has passed ends a request before anything is done for it") {
  RequestsWorld world;
  for (const base::Duration deadline : {0ms, -5ms}) {
    const auto late = world.submit(1, {}, deadline);
    CHECK(late->answer.end().reason == FinishReason::deadline);
    CHECK(world.next<Abandon>().sequence == 1);
  }
  CHECK(world.told.empty()); // nothing was admitted
}

TEST_CASE("alarms for deadlines are few, however many requests end long before theirs") {
  RequestsWorld world;
  for (SequenceId id = 1; id <= 500; ++id) {
    world.submit(id, {}, std::chrono::seconds(3600 - int(id))); // each sooner than those before
    world.take(world.requests.cancel(id, world.now));
  }
  const auto late = world.submit(501, {}, 90s); // sooner than all of them
  world.run(base::TimePoint(80s));
  CHECK_FALSE(late->ended());
  CHECK(world.run() < 15); // a look each second, and none in an hour
  CHECK(late->answer.end().reason == FinishReason::deadline);
}

TEST_CASE("draining refuses new requests, has a limit, and is over with the last end") {
  RequestsWorld world;
  const auto first = world.submit(1);
  const auto second = world.submit(2);
  world.commit(1, 0, {3});
  world.take(world.requests.drain(2s, world.now));
  CHECK_FALSE(world.requests.drained());
  const auto refused = world.submit(3);
  CHECK(refused->answer.end().error->code == ErrorCode::unavailable);
  SUBCASE("the last ends by itself") {
    world.commit(1, 1, {4}, true);
    CHECK_FALSE(world.requests.drained());
    world.commit(2, 0, {4}, true);
    CHECK(first->answer.end().reason == FinishReason::length);
  }
  SUBCASE("time is up") {
    world.run();
    CHECK(world.now.time_since_epoch() == 2s);
    for (const auto& caller : {first, second})
      CHECK(caller->answer.end().reason == FinishReason::cancelled);
  }
  CHECK(world.requests.drained());
}

TEST_CASE("whatever is open when nothing more can come ends with an error") {
  RequestsWorld world;
  const auto open = world.submit(1);
  world.commit(1, 0, {3});
  SUBCASE("it was closed") {
    world.requests.close(world.now);
    CHECK(open->answer.end().error->message == "the engine was closed");
  }
  SUBCASE("an actor kept failing") {
    world.requests.close(world.now, "the sampler died");
    CHECK(open->answer.end().error->message.find("the sampler died") != std::string::npos);
  }
  CHECK(open->answer.end().error->code == ErrorCode::unavailable);
  CHECK(open->answer.tokens == Tokens{3});
}
