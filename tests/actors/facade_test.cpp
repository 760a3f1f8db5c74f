// The facade alone: a mock scheduler on one side, callers' streams on the other.
#include "actors/facade.hpp"
#include "models/synthetic/scripted.hpp"
#include "tests/actors/mail.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/pools.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::actors;
using namespace paceline::messages;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::execution;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

struct Caller final : base::EventSink {
  void deliver(Event event) override { answer.add(std::move(event)); }
  bool ended() const { return !answer.ends.empty(); }
  Answer answer;
};

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

struct World {
  explicit World(std::shared_ptr<const text::Tokenizer> tokenizer =
                     models::make_scripted_tokenizer("scripted:vocabulary=32").value()) {
    facade = simulation.spawn<Facade>(
        FacadeParts{std::move(tokenizer), std::make_shared<base::Telemetry>(), 0});
    wire(scheduler.actor);
  }
  void wire(const SchedulerActor& to) {
    ActorHandles handles;
    handles.version = ++versions;
    handles.scheduler = to;
    simulation.tell(facade, handles);
  }

  std::shared_ptr<Caller> submit(SequenceId id, std::vector<std::string> stop = {},
                                 std::optional<base::Duration> deadline = {},
                                 Tokens prompt = {1, 2}) {
    auto spec = std::make_shared<SequenceSpec>();
    spec->id = id;
    spec->prompt_tokens = int(prompt.size());
    spec->max_tokens = 100;
    spec->noise.seed = 40 + id;
    auto caller = std::make_shared<Caller>();
    simulation.tell(facade,
                    Submit{spec, std::move(prompt), std::move(stop), true, deadline, caller});
    return caller;
  }
  /// What the scheduler says of tokens first, first + 1, ...
  Committed news(SequenceId id, int first, std::vector<TokenId> tokens, bool last = false) {
    Committed news;
    news.sequence = id;
    news.first = first;
    news.sources.assign(tokens.size(), TokenSource::target);
    news.tokens = std::move(tokens);
    news.length = last;
    return news;
  }
  void commit(Committed committed) { simulation.tell(facade, Commits{{std::move(committed)}}); }
  void await(const Caller& caller) {
    REQUIRE(simulation.run_until([&] { return caller.ended(); }));
  }

  Simulation simulation{0, exact_order};
  Mock<SchedulerActor> scheduler{simulation};
  FacadeActor facade;
  std::uint64_t versions = 0;
};

} // namespace

TEST_CASE("a request is admitted, streams its tokens, ends once, and the scheduler hears of it") {
  World world;
  const auto caller = world.submit(7);
  const auto admitted = world.scheduler.take<Admit>();
  CHECK(admitted.spec->id == 7);
  CHECK(admitted.tokens == Tokens{1, 2});
  world.commit(world.news(7, 0, {3, 4}));
  world.commit(world.news(7, 2, {5}, true));
  CHECK(world.scheduler.take<Abandon>().sequence == 7);
  CHECK(caller->answer.tokens == Tokens{3, 4, 5});
  CHECK(caller->answer.text == " 3 4 5");
  CHECK(caller->answer.end().reason == FinishReason::length);
  CHECK(caller->answer.end().seed == 47);
  CHECK(caller->answer.end().usage.completion_tokens == 3);
}

TEST_CASE("a blank that begins a text is left out, one that goes on after the prompt is shown") {
  World world(std::make_shared<Opening>());
  const auto begins = world.submit(1, {}, {}, {-1}); // a BOS, which reads as nothing
  const auto goes_on = world.submit(2);
  for (const SequenceId id : {1, 2})
    world.commit(world.news(id, 0, {3, 4}, true));
  world.await(*begins);
  world.await(*goes_on);
  CHECK(begins->answer.text == "3 4");
  CHECK(goes_on->answer.text == " 3 4");
}

TEST_CASE("tokens that come twice are delivered once, and none is skipped") {
  World world;
  const auto caller = world.submit(1);
  world.commit(world.news(1, 0, {3, 4}));
  world.commit(world.news(1, 0, {3, 4}));
  world.commit(world.news(1, 1, {4, 5, 6})); // a new scheduler's step overlaps what is known
  world.commit(world.news(1, 9, {9}));       // after a gap: not what follows
  world.commit(world.news(1, 4, {7}, true));
  world.await(*caller);
  CHECK(caller->answer.tokens == Tokens{3, 4, 5, 6, 7});
}

TEST_CASE("a new scheduler gets every open request with all that was delivered, and no other") {
  World world;
  const auto ended = world.submit(1);
  const auto open = world.submit(2);
  world.commit(world.news(1, 0, {3}, true));
  world.commit(world.news(2, 0, {4, 5}));
  world.await(*ended);
  Mock<SchedulerActor> successor{world.simulation};
  world.wire(successor.actor);
  const auto admitted = successor.take<Admit>();
  CHECK(admitted.spec->id == 2);
  CHECK(admitted.tokens == Tokens{1, 2, 4, 5});
  world.wire(successor.actor); // somebody else was restarted: nothing is admitted again
  world.commit(world.news(2, 2, {6}, true));
  CHECK(successor.take<Abandon>().sequence == 2);
  CHECK(open->answer.tokens == Tokens{4, 5, 6});
}

TEST_CASE("a stop string ends the text before it, wherever tokens and steps are cut") {
  for (const std::vector<int>& steps : {std::vector{1, 1, 1, 1}, {2, 2}, {4}, {3, 1}}) {
    World world;
    const auto caller = world.submit(1, {"3 1"});
    const Tokens tokens{5, 13, 14, 6}; // " 5 13 14 6": the match ends inside the third token
    int first = 0;
    for (const int step : steps) {
      world.commit(world.news(1, first, {tokens.begin() + first, tokens.begin() + first + step}));
      first += step;
    }
    world.await(*caller);
    CHECK(caller->answer.text == " 5 1");
    CHECK(caller->answer.tokens == Tokens{5, 13, 14});
    CHECK(caller->answer.end().reason == FinishReason::stop);
    CHECK(caller->answer.end().stop_match == "3 1");
  }
}

TEST_CASE("the end comes with the text that was held back for a stop string that did not come") {
  World world;
  const auto caller = world.submit(1, {" 5 6 7"});
  world.commit(world.news(1, 0, {5, 6}));
  world.commit(world.news(1, 2, {8}));
  world.commit(world.news(1, 3, {5, 6}, true));
  world.await(*caller);
  CHECK(caller->answer.text == " 5 6 8 5 6");
  CHECK(caller->answer.end().reason == FinishReason::length);
}

TEST_CASE("a cancel ends a request once; late, repeated or unknown it is harmless") {
  World world;
  const auto caller = world.submit(1);
  world.commit(world.news(1, 0, {3}));
  for (const SequenceId id : {1, 1, 99})
    world.simulation.tell(world.facade, Cancel{id});
  world.commit(world.news(1, 1, {4}));
  world.simulation.tell(world.facade, Failed{1, {ErrorCode::internal, "late", ""}});
  world.await(*caller);
  world.simulation.run();
  CHECK(caller->answer.end().reason == FinishReason::cancelled);
  CHECK(caller->answer.tokens == Tokens{3});
}

TEST_CASE("a deadline ends what is not finished by then, keeping what it has") {
  World world;
  const auto late = world.submit(1, {}, 50ms);
  const auto unhurried = world.submit(2);
  world.commit(world.news(1, 0, {3}));
  const auto begin = world.simulation.now();
  world.await(*late);
  CHECK(world.simulation.now() - begin == 50ms);
  CHECK(late->answer.end().reason == FinishReason::deadline);
  CHECK(late->answer.tokens == Tokens{3});
  CHECK_FALSE(unhurried->ended());
}

TEST_CASE("a deadline that has passed ends a request before anything is done for it") {
  World world;
  for (const base::Duration deadline : {0ms, -5ms}) {
    const auto late = world.submit(1, {}, deadline);
    world.await(*late);
    CHECK(late->answer.end().reason == FinishReason::deadline);
    CHECK(world.scheduler.take<Abandon>().sequence == 1);
  }
  CHECK(world.scheduler.mail->empty()); // nothing was admitted
}

TEST_CASE("timers for deadlines are few, however many requests end long before theirs") {
  World world;
  for (SequenceId id = 1; id <= 500; ++id) {
    world.submit(id, {}, std::chrono::seconds(3600 - int(id))); // each sooner than those before
    world.simulation.tell(world.facade, Cancel{id});
  }
  const auto late = world.submit(501, {}, 90s); // sooner than all of them
  world.simulation.run_until([&] { return world.simulation.now().time_since_epoch() > 80s; });
  CHECK_FALSE(late->ended());
  const std::size_t left = world.simulation.run();
  CHECK(late->answer.end().reason == FinishReason::deadline);
  CHECK(left < 30); // a look each second, and no timer for an hour
}

TEST_CASE("draining refuses new requests, answers with the last end, and has a limit") {
  World world;
  const auto first = world.submit(1);
  const auto second = world.submit(2);
  bool drained = false;
  world.simulation.run_until([&] { return !world.scheduler.mail->empty(); });
  world.commit(world.news(1, 0, {3}));
  const auto begin = world.simulation.now();
  drained = world.simulation.ask<Drained>(world.facade, Drain{2s}).has_value();
  CHECK(drained);
  CHECK(world.simulation.now() - begin == 2s);
  CHECK(first->answer.end().reason == FinishReason::cancelled);
  CHECK(second->answer.end().reason == FinishReason::cancelled);
  const auto refused = world.submit(3);
  world.await(*refused);
  CHECK(refused->answer.end().error->code == ErrorCode::unavailable);
  CHECK(world.simulation.ask<Drained>(world.facade, Drain{2s})); // nothing is left: at once
}

TEST_CASE("a failed sequence ends with its error, and its tokens stay") {
  World world;
  const auto caller = world.submit(1);
  world.commit(world.news(1, 0, {3}));
  world.simulation.tell(world.facade, Failed{1, {ErrorCode::internal, "NaN", "use f32"}});
  world.await(*caller);
  CHECK(caller->answer.tokens == Tokens{3});
  CHECK(caller->answer.end().reason == FinishReason::error);
  CHECK(caller->answer.end().error->message == "NaN");
}

TEST_CASE("when the facade goes, every open request is answered") {
  World world;
  const auto first = world.submit(1);
  const auto second = world.submit(2);
  world.simulation.run();
  world.simulation.kill(world.facade);
  world.simulation.run();
  for (const auto& caller : {first, second})
    CHECK(caller->answer.end().error->code == ErrorCode::unavailable);
}
