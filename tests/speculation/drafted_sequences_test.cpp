// What everybody who drafts knows of a sequence: where it stands, and its text.
#include "speculation/drafted_sequences.hpp"

#include "speculation/drafted_text.hpp"
#include "tests/speculation/planner_world.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::speculation;
using namespace paceline::testing;

namespace {

struct Entry {
  Frontier at;
};

/// Replaces what is known by what is newer of the news.
bool take(DraftedSequences<Entry>& known, const Frontier& news) {
  return known.take({news}, [](Entry& s, Frontier&& frontier) { s.at = std::move(frontier); });
}

} // namespace

TEST_CASE("news of a sequence are taken if they are newer, within a residency and across two") {
  PlannerWorld world;
  DraftedSequences<Entry> known;
  const Frontier first = world.frontier(1, {1});
  Frontier second = world.frontier(1, {1, 2});
  second.residency = first.residency;
  CHECK(take(known, second));
  CHECK_FALSE(take(known, first)); // it was overtaken on its way
  REQUIRE(known.find(1));
  CHECK(known.find(1)->at.length() == 2);
  CHECK_FALSE(take(known, second));        // the same once more
  Frontier other = world.frontier(1, {1}); // the sequence begins anew elsewhere
  CHECK_FALSE(take(known, other));
  CHECK(known.find(1)->at.residency == other.residency);
  CHECK_FALSE(take(known, second)); // of the residency before
  CHECK(known.find(1)->at.residency == other.residency);
}

TEST_CASE("a sequence whose residency is over is forgotten, and told of once") {
  PlannerWorld world;
  DraftedSequences<Entry> known;
  const Frontier kept = world.frontier(1, {1});
  const Frontier over = world.frontier(2, {1});
  take(known, kept);
  take(known, over);
  over.residency->over = true;
  std::vector<SequenceId> ended;
  const auto note = [&](const Entry& s) { ended.push_back(s.at.spec->id); };
  CHECK(known.forget(note));
  CHECK_FALSE(known.forget(note));
  CHECK(ended == std::vector<SequenceId>{2});
  CHECK_FALSE(take(known, over)); // it comes late
  CHECK_FALSE(known.find(2));
  CHECK(known.find(1));
}

TEST_CASE("a text is what is committed and what the chain has drawn, without what was rejected") {
  PlannerWorld world;
  DraftedText text;
  Frontier at = world.frontier(1, {1, 2, 3});
  at.chain->bind(4);
  at.chain->put(3, 7, nullptr);
  text.read(at);
  CHECK(text.tokens == Tokens{1, 2, 3, 7});
  CHECK(text.committed() == 3);
  at.chain->bind(5);
  at.chain->put(4, 8, nullptr);
  text.read(at);
  CHECK(text.tokens == Tokens{1, 2, 3, 7, 8});
  Frontier next = world.frontier(1, {1, 2, 3, 7}); // the log has not got the next token yet
  next.tokens = {9};
  next.chain = std::make_shared<Chain>(1);
  next.chain->begin(5, 7, 7);
  text.read(next);
  CHECK(text.tokens == Tokens{1, 2, 3, 7, 9});
  CHECK(text.committed() == 5);
  text.read(world.frontier(1, {1, 2, 3, 7})); // the verdict is lost with the scheduler
  CHECK(text.tokens == Tokens{1, 2, 3, 7});
  CHECK(text.committed() == 4);
}
