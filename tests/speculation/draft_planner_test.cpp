// What the draft's lane does next: no model, no device, tokens that the test makes up.
#include "speculation/limits.hpp"
#include "tests/sampling/toy_constraint.hpp"
#include "tests/speculation/planner_world.hpp"
#include "tests/support/word_tokenizer.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace paceline;
using namespace paceline::speculation;
using namespace paceline::testing;

TEST_CASE("a sequence is read, and then drawn token by token as far as its chain reaches") {
  PlannerWorld world;
  const Frontier at = world.frontier(1, {1, 2, 3});
  world.planner.take({at});
  DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].start == 0);
  CHECK(pass.parts[0].tokens == Tokens{1, 2, 3});
  CHECK(pass.parts[0].draws == 3);
  CHECK(pass.hurries);
  PlannerWorld::compute(pass);
  CHECK(at.residency->cached == 3);
  for (int position = 4; position < 8; ++position) {
    pass = world.planner.plan();
    REQUIRE(pass.parts.size() == 1);
    CHECK(pass.parts[0].tokens == Tokens{5});
    CHECK(pass.parts[0].draws == position);
    CHECK(pass.hurries == (position == 4)); // the rest is lookahead
    PlannerWorld::compute(pass);
  }
  CHECK(world.planner.plan().parts.empty());
}

TEST_CASE("after a rejection what was fed in vain is fed anew, and nothing before it") {
  PlannerWorld world;
  const Frontier first = world.frontier(1, {1, 2, 3});
  world.planner.take({first});
  for (int i = 0; i < 3; ++i) {
    DraftPass pass = world.planner.plan();
    PlannerWorld::compute(pass);
  }
  first.chain->close();
  Frontier next = world.frontier(1, {1, 2, 3, 5, 9}); // the second token drafted was rejected
  next.residency = first.residency;
  world.planner.take({next});
  const DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].start == 4);
  CHECK(pass.parts[0].tokens == Tokens{9});
  CHECK(pass.parts[0].draws == 5);
}

TEST_CASE("an older frontier than the one known changes nothing") {
  PlannerWorld world;
  const Frontier older = world.frontier(1, {1, 2});
  Frontier newer = world.frontier(1, {1, 2, 3});
  newer.residency = older.residency;
  world.planner.take({newer});
  world.planner.take({older});
  CHECK(world.planner.plan().parts.at(0).draws == 3);
}

TEST_CASE("a window that is waited for goes before those who have much to read") {
  PlannerWorld world;
  const Frontier reader = world.frontier(1, Tokens(200, 3));
  const Frontier writer = world.frontier(2, {1, 2, 3});
  world.planner.take({reader, writer});
  DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].sequence->at.spec->id == 2);
  CHECK(pass.leaves_out);
  PlannerWorld::compute(pass);
  pass = world.planner.plan();
  CHECK(pass.parts.at(0).sequence->at.spec->id == 2);
  PlannerWorld::compute(pass);
  pass = world.planner.plan(); // its window is whole
  CHECK(pass.parts.size() == 2);
  CHECK(pass.parts[0].tokens.size() == 200);
}

TEST_CASE("what a pass reads of prompts is bounded over all sequences") {
  PlannerWorld world;
  world.planner.take({world.frontier(1, Tokens(220, 3)), world.frontier(2, Tokens(220, 4))});
  const DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 2);
  CHECK(pass.parts[0].tokens.size() == 220);
  CHECK(int(pass.parts[1].tokens.size()) == speculation::limits::draft_prefill_chunk - 220);
  CHECK(pass.parts[0].draws == 220);
  CHECK(pass.parts[1].draws == -1);
}

TEST_CASE("nothing is drawn that the draft's context has no room for") {
  PlannerWorld world(4);
  const Frontier at = world.frontier(1, {1, 2, 3});
  world.planner.take({at});
  for (DraftPass pass = world.planner.plan(); !pass.parts.empty(); pass = world.planner.plan())
    PlannerWorld::compute(pass);
  CHECK(at.chain->drawn() == 5); // the last one is not fed
  CHECK(at.chain->settled(8));
}

TEST_CASE("a sequence whose residency is over is forgotten") {
  PlannerWorld world;
  const Frontier at = world.frontier(1, {1, 2, 3});
  world.planner.take({at});
  at.residency->over = true;
  world.planner.take({});
  CHECK(world.planner.plan().parts.empty());
  world.planner.take({at}); // a hint that was late
  CHECK(world.planner.plan().parts.empty());
}

TEST_CASE("the pass behind feeds what the one before draws, and stays behind who waits") {
  PlannerWorld world;
  world.planner.take({world.frontier(1, {1, 2, 3})});
  DraftPass pass = world.planner.plan();
  pass.parts[0].chain().bind(4);
  const DraftPass behind = world.planner.plan_behind(pass);
  REQUIRE(behind.parts.size() == 1);
  CHECK(behind.parts[0].pending());
  CHECK(behind.parts[0].follows == 0);
  CHECK(behind.parts[0].start == 3);
  CHECK(behind.parts[0].draws == 4);
  CHECK(behind.hurries);
  pass.leaves_out = true;
  pass.parts[0].chain().extend(4, 9); // now it would be lookahead
  CHECK(world.planner.plan_behind(pass).parts.empty());
}

TEST_CASE("what is abandoned is waited for by nobody") {
  PlannerWorld world;
  const Frontier at = world.frontier(1, {1, 2, 3});
  world.planner.take({at});
  DraftPass pass = world.planner.plan();
  pass.parts[0].chain().bind(4);
  world.planner.abandon();
  CHECK(at.chain->settled(8));
  CHECK(at.chain->bound() == 3);
  CHECK(world.planner.plan().parts.empty());
}

// ---- a draft with a vocabulary of its own ----

namespace {

/// Tokens 0 to 3 are a, b, ab and c; the draft has b, a and c, and something before every text.
std::shared_ptr<const text::VocabularyMap> map_of_words() {
  return std::make_shared<const text::VocabularyMap>(WordTokenizer({"a", "b", "ab", "c"}),
                                                     WordTokenizer({"b", "a", "c", "<s>"}, 3));
}

} // namespace

TEST_CASE("a draft of another vocabulary reads its own tokens, in slots of their number") {
  PlannerWorld world(1000, 8, map_of_words());
  const Frontier at = world.frontier(1, {2, 0, 2});
  world.planner.take({at});
  DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].read() == Tokens{3, 1, 0, 1, 1, 0});
  CHECK(pass.parts[0].slot == 0);
  CHECK(pass.parts[0].draws == 3);
  PlannerWorld::compute(pass, 2);
  CHECK(at.residency->cached == 0); // its pages are of no use to anybody else
  CHECK(at.residency->read > 0);
  pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].tokens == Tokens{2});
  CHECK(pass.parts[0].read() == Tokens{1, 0});
  CHECK(pass.parts[0].slot == 6);
  CHECK(pass.parts[0].draws == 4);
}

TEST_CASE(
    "after a rejection a draft of another vocabulary goes on from the slot of the first token "
    "that differs") {
  PlannerWorld world(1000, 8, map_of_words());
  const Frontier first = world.frontier(1, {2, 0});
  world.planner.take({first});
  for (int i = 0; i < 4; ++i) {
    DraftPass pass = world.planner.plan();
    PlannerWorld::compute(pass, 2);
  }
  first.chain->close();
  Frontier next = world.frontier(1, {2, 0, 2, 3});
  next.residency = first.residency;
  world.planner.take({next});
  DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].start == 3);
  CHECK(pass.parts[0].slot == 6);
  CHECK(pass.parts[0].read() == Tokens{2});
  PlannerWorld::compute(pass, 1);
  CHECK(world.planner.plan().parts.at(0).slot == 7);
}

TEST_CASE("a draft of another vocabulary reads as far as its slots go") {
  PlannerWorld world(6, 8, map_of_words()); // its own <s>, and five more
  const Frontier at = world.frontier(1, {2, 2, 0, 2});
  world.planner.take({at});
  DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].draws == -1);
  CHECK(pass.parts[0].read() == Tokens{3, 1, 0, 1, 0, 1});
  CHECK(at.chain->settled(5)); // nothing will be drawn
  PlannerWorld::compute(pass);
  CHECK(world.planner.plan().parts.empty());
}

TEST_CASE("a long text of another vocabulary is read in passes of bounded rows") {
  PlannerWorld world(1000, 8, map_of_words());
  const Frontier at = world.frontier(1, Tokens(250, 2));
  world.planner.take({at});
  int rows = 0;
  for (DraftPass pass = world.planner.plan(); at.chain->drawn() < 251;
       pass = world.planner.plan()) {
    REQUIRE(pass.parts.size() == 1);
    CHECK(pass.parts[0].slot == rows);
    CHECK(int(pass.parts[0].read().size()) <= limits::draft_prefill_chunk);
    rows += int(pass.parts[0].read().size());
    PlannerWorld::compute(pass, 2);
  }
  CHECK(rows == 501);
}

namespace {

/// That of a head on the target, which has left features of `count` positions.
Frontier with_features(Frontier at, int count) {
  at.features = {at.pages, count};
  return at;
}

} // namespace

TEST_CASE("a head reads a prompt as far as the target's features go, and drafts from its end") {
  PlannerWorld world;
  const Frontier reading = with_features(world.frontier(1, {1, 2, 3, 4, 5}, 0, 0), 2);
  world.planner.take({reading});
  DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].tokens == Tokens{1, 2, 3}); // the third with the second's features
  CHECK(pass.parts[0].draws == -1);
  PlannerWorld::compute(pass);
  CHECK(world.planner.plan().parts.empty());
  CHECK(reading.residency->cached == 0); // nobody else may have these pages
  Frontier at = with_features(world.frontier(1, {1, 2, 3, 4, 5, 6}), 5);
  at.residency = reading.residency;
  world.planner.take({at});
  pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].start == 3);
  CHECK(pass.parts[0].tokens == Tokens{4, 5, 6});
  CHECK(pass.parts[0].draws == 6);
  PlannerWorld::compute(pass);
  CHECK(world.planner.plan().parts.at(0).tokens == Tokens{5}); // on its own features, once
}

TEST_CASE("a head whose target has no features of the last token yet draws nothing") {
  PlannerWorld world;
  const Frontier at = with_features(world.frontier(1, {1, 2, 3, 4}), 2);
  world.planner.take({at});
  const DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].tokens == Tokens{1, 2, 3});
  CHECK(pass.parts[0].draws == -1);
  CHECK(at.chain->settled(5)); // nobody waits for it
}

TEST_CASE("what a head drafted on its own features it reads again with the target's, and no more") {
  PlannerWorld world;
  const Frontier first = with_features(world.frontier(1, {1, 2, 3}, 2, 3), 2);
  world.planner.take({first});
  for (int i = 0; i < 5; ++i) { // draws 3 to 7
    DraftPass pass = world.planner.plan();
    CHECK(pass.parts.at(0).tokens.size() == (i == 0 ? 3u : 1u));
    PlannerWorld::compute(pass);
  }
  SUBCASE("after a hit") {
    Frontier next = with_features(world.frontier(1, {1, 2, 3, 5, 5, 5}), 5);
    next.residency = first.residency;
    next.chain = first.chain;
    first.chain->extend(8, 11);
    world.planner.take({next});
    DraftPass pass = world.planner.plan();
    REQUIRE(pass.parts.size() == 1);
    CHECK(pass.parts[0].start == 3); // the first that it read with features of its own
    CHECK(pass.parts[0].tokens == Tokens{5, 5, 5, 5, 5});
    CHECK(pass.parts[0].draws == 8);
    PlannerWorld::compute(pass);
    pass = world.planner.plan();
    CHECK(pass.parts.at(0).start == 8);
    CHECK(pass.parts.at(0).tokens == Tokens{5});
  }
  SUBCASE("after a rejection") {
    first.chain->close();
    Frontier next = with_features(world.frontier(1, {1, 2, 3, 5, 9}), 4);
    next.residency = first.residency;
    world.planner.take({next});
    const DraftPass pass = world.planner.plan();
    REQUIRE(pass.parts.size() == 1);
    CHECK(pass.parts[0].start == 3);
    CHECK(pass.parts[0].tokens == Tokens{5, 9});
    CHECK(pass.parts[0].draws == 5);
  }
}

TEST_CASE(
    "a head lets go of a path's features when it has read them, or when somebody needs pages") {
  PlannerWorld world;
  const auto path = [](Frontier at) { // of the fourth token and the fifth
    at.features = {at.pages, 5, at.pages, 3};
    return at;
  };
  const Frontier at = path(world.frontier(1, {1, 2, 3, 4, 5, 6}));
  world.planner.take({at});
  const long held = at.pages.use_count();
  SUBCASE("read") {
    DraftPass pass = world.planner.plan();
    CHECK(pass.parts.at(0).tokens == Tokens{1, 2, 3, 4, 5, 6});
    CHECK(pass.parts.at(0).draws == 6);
    CHECK(at.pages.use_count() == held); // the pass has to run first
    PlannerWorld::compute(pass);
    CHECK(at.pages.use_count() == held - 1);
    CHECK(world.planner.plan().parts.at(0).draws == 7); // on its own features
  }
  SUBCASE("needed before") {
    at.chain->end_forks();
    world.planner.take({});
    CHECK(at.pages.use_count() == held - 1);
    const DraftPass pass = world.planner.plan();
    CHECK(pass.parts.at(0).tokens == Tokens{1, 2, 3, 4}); // the fourth with the third's features
    CHECK(pass.parts.at(0).draws == -1);
  }
}

TEST_CASE("a head drafts no forks") {
  PlannerWorld world;
  Frontier at = with_features(world.frontier(1, {1, 2, 3}, 1, 1), 2);
  at.forking = {4, 2, {}};
  world.planner.take({at});
  sampling::Guesses guesses;
  guesses.count = 2;
  guesses.tokens = {6, 7};
  for (int i = 0; i < 2; ++i) {
    DraftPass pass = world.planner.plan();
    CHECK(pass.fork_rows == 0);
    PlannerWorld::compute(pass, 5, guesses);
  }
  CHECK(world.planner.plan().parts.empty());
}

namespace {

/// Limits of a head that writes blocks of four tokens.
DraftLimits in_blocks(int context = 1000, int drawn = 100) {
  return {.context = context, .block = 4, .drawn = drawn};
}

} // namespace

TEST_CASE("a block is drawn in one pass, and what is behind it when the next verdict is there") {
  PlannerWorld world(in_blocks());
  const Frontier first = with_features(world.frontier(1, {1, 2, 3}, 2, 3), 2);
  world.planner.take({first});
  DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].tokens == Tokens{1, 2, 3});
  CHECK(pass.parts[0].draws == 3);
  CHECK(pass.parts[0].drawn == 4); // the window, and of its lookahead what the block has room for
  PlannerWorld::compute(pass);
  CHECK(world.planner.plan().parts.empty());
  CHECK(first.chain->reach() == 8); // it has not ended: more may come
  SUBCASE("after a hit") {
    Frontier next = with_features(world.frontier(1, {1, 2, 3, 5, 5, 5}), 5);
    next.residency = first.residency;
    next.chain = first.chain;
    first.chain->extend(8, 11);
    world.planner.take({next});
    pass = world.planner.plan();
    REQUIRE(pass.parts.size() == 1);
    CHECK(pass.parts[0].tokens == Tokens{5, 5, 5}); // those that were committed
    CHECK(pass.parts[0].draws == 7);
    CHECK(pass.parts[0].drawn == 3);
  }
  SUBCASE("after a rejection") {
    first.chain->close();
    Frontier next = with_features(world.frontier(1, {1, 2, 3, 5, 9}), 4);
    next.residency = first.residency;
    world.planner.take({next});
    pass = world.planner.plan();
    REQUIRE(pass.parts.size() == 1);
    CHECK(pass.parts[0].start == 3);
    CHECK(pass.parts[0].tokens == Tokens{5, 9});
    CHECK(pass.parts[0].draws == 5);
    CHECK(pass.parts[0].drawn == 4);
  }
}

TEST_CASE("a block has as many tokens as its pages and the context have room for") {
  PlannerWorld world(in_blocks(5));
  const Frontier at = with_features(world.frontier(1, {1, 2, 3}, 4, 0), 2);
  world.planner.take({at});
  DraftPass pass = world.planner.plan();
  CHECK(pass.parts.at(0).drawn == 2); // each has a slot of its own
  PlannerWorld::compute(pass);
  CHECK(world.planner.plan().parts.empty());
  CHECK(at.chain->settled(7)); // nobody waits for the others
}

TEST_CASE("sequences for whose blocks a pass has no room are drawn in the next one") {
  PlannerWorld world(in_blocks(1000, 5));
  for (SequenceId id = 1; id <= 3; ++id)
    world.planner.take({with_features(world.frontier(id, {1, 2, 3}, 3, 0), 2)});
  std::vector<int> drawn;
  for (int passes = 0; passes < 2; ++passes) {
    DraftPass pass = world.planner.plan();
    for (const DraftRows& rows : pass.parts)
      drawn.push_back(rows.drawn);
    PlannerWorld::compute(pass);
  }
  CHECK(drawn == std::vector{3, 2, 1, 3});
  CHECK(world.planner.plan().parts.empty());
}

TEST_CASE("tokens of a block that decide what may come behind them are drawn one by one") {
  PlannerWorld world(in_blocks());
  const Frontier at = with_features(world.frontier(1, {1, 2, 3}, 3, 0), 2);
  auto spec = std::make_shared<SequenceSpec>(*at.spec);
  spec->warping.constraint = std::make_shared<ToyConstraint>(10, 1);
  Frontier held = at;
  held.spec = spec;
  world.planner.take({held});
  for (const int position : {3, 4, 5}) {
    DraftPass pass = world.planner.plan();
    REQUIRE(pass.parts.size() == 1);
    CHECK(pass.parts[0].end() == 3); // of the same block
    CHECK(pass.parts[0].draws == position);
    CHECK(pass.parts[0].drawn == 1);
    PlannerWorld::compute(pass);
  }
  CHECK(world.planner.plan().parts.empty());
}

TEST_CASE("a model goes on behind what a look-up wrote, all of which it reads in one pass") {
  PlannerWorld world;
  Frontier at = world.frontier(1, {1, 2, 3}, 4);
  at.drafters = {.model = true, .lookup = true, .chance = 0.5};
  world.planner.take({at});
  at.chain->bind(5);
  at.chain->put(3, 7, nullptr, {}, Writer::lookup);
  at.chain->put(4, 8, nullptr, {}, Writer::lookup);
  const DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].tokens == Tokens{1, 2, 3, 7, 8});
  CHECK(pass.parts[0].draws == 5);
}

TEST_CASE("a model that is not to draft reads now and then what it is behind with") {
  PlannerWorld world;
  const auto at_length = [&](int length, const Frontier* before) {
    Frontier at = world.frontier(1, Tokens(std::size_t(length), 4));
    at.drafters = {.model = false, .lookup = true};
    if (before)
      at.residency = before->residency;
    return at;
  };
  const Frontier first = at_length(40, nullptr);
  world.planner.take({first});
  DraftPass pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(pass.parts[0].tokens.size() == 40);
  CHECK(pass.parts[0].draws == -1);
  PlannerWorld::compute(pass);
  world.planner.take({at_length(40 + limits::reading_lag, &first)});
  CHECK(world.planner.plan().parts.empty());
  world.planner.take({at_length(41 + limits::reading_lag, &first)});
  pass = world.planner.plan();
  REQUIRE(pass.parts.size() == 1);
  CHECK(int(pass.parts[0].tokens.size()) == limits::reading_lag + 1);
}

TEST_CASE("the planner says when sequences that want a look-up come or go, and of no others") {
  PlannerWorld world;
  Frontier looked_up = world.frontier(1, {1, 2});
  looked_up.drafters.lookup = true;
  const Frontier other = world.frontier(2, {1, 2});
  CHECK_FALSE(world.planner.take({other}));
  CHECK(world.planner.take({looked_up}));
  CHECK_FALSE(world.planner.take({looked_up}));
  other.residency->over = true;
  CHECK_FALSE(world.planner.take({}));
  looked_up.residency->over = true;
  CHECK(world.planner.take({}));
}
