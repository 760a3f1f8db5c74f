// Passes that are under way one behind the other: what they have rows for, and what is left of them
// behind a verdict.
#include "execution/alternatives.hpp"
#include "execution/forward_pass.hpp"
#include "execution/forward_step.hpp"
#include "tests/actors/models_world.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::execution;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::testing;
using PassFate = PassOutcome::Fate;

namespace {

constexpr int window = 2;
const Tokens prompt{1, 2, 3, 4, 5};

sampling::Guesses guesses_of(TokenId first, TokenId second) {
  sampling::Guesses guesses;
  guesses.tokens = {first, second};
  guesses.count = 2;
  return guesses;
}

void draw(Chain& chain, int end) {
  for (int i = chain.drawn(); i < end; ++i) {
    chain.bind(i + 1);
    chain.put(i, TokenId(i % 5), nullptr, guesses_of(6, 7));
  }
}

/// A sequence of five tokens, behind which a chain of windows of two is in flight: the first pass
/// is at length 5, the next one at 8, and so on.
struct InFlight : ModelWorld {
  InFlight() {
    chain->begin(5, 7, 30);
    draw(*chain, 20);
    built.spec = greedy(1, 5);
    built.log = log;
    built.feed.pages = pages(32);
    built.round = {true, chain, window, true, true};
    built.next.forking.rows = 4;
    built.next.forking.odds.by_margin.fill(0.5);
    built.forks = {20, 64};
  }

  /// Returns the outcome of the pass of this number, which is behind `ahead`.
  std::shared_ptr<PassOutcome> behind(PassOutcome& ahead, int number) const {
    Batch batch;
    batch.id = std::uint64_t(10 + number);
    batch.entries = {entry(number)};
    return PassOutcome::behind(ahead, batch);
  }
  /// The passes that go on.
  std::vector<Continuation> go_on(PassOutcome& judged, ChainRef onto, int length) const {
    Verdict verdict;
    const Onset onset{0, std::move(onto), length};
    PassOutcome::go_on(judged, {&onset, 1}, {&verdict, 1});
    return verdict.continuations;
  }
  BatchEntry entry(int number) const {
    BatchEntry entry = built;
    entry.length = 5 + number * (window + 1);
    entry.assumed = entry.length - 5;
    entry.feed.cached = entry.length - 1;
    return entry;
  }
  Branch branch(int number) const {
    const BatchEntry of = entry(number);
    return {of.round.chain, of.length, of.round.window, of.feed.pages, {}, 1};
  }
  /// Returns a fork of `chain`, with tokens up to `end`.
  ChainRef fork(int position, TokenId token, int end) {
    auto made = std::make_shared<Chain>(1);
    made->begin_fork(position + 1, 30, 5, ++forks);
    draw(*made, end);
    chain->add_fork(position, token, made);
    return made;
  }

  TokenLogRef log = std::make_shared<TokenLog>(prompt, 100);
  ChainRef chain = std::make_shared<Chain>(1);
  BatchEntry built;
  int forks = 0;
};

std::vector<std::uint64_t> ids(const std::vector<Continuation>& continuations) {
  std::vector<std::uint64_t> all;
  for (const Continuation& on : continuations)
    all.push_back(on.batch);
  return all;
}

} // namespace

TEST_CASE("a fork of a pass ahead has rows, its tokens and pages of its own in the next one") {
  InFlight world;
  const ChainRef fork = world.fork(6, 7, 9);
  const std::vector<Branch> ahead{world.branch(0)};
  const auto made = alternatives(world.entry(1), window, ahead, *world.pool);
  REQUIRE(made.size() == 1);
  const BatchEntry& entry = made[0].entry;
  CHECK(entry.round.chain == fork);
  CHECK(entry.length == 7);
  CHECK(entry.round.window == 2);
  CHECK(entry.feed.cached == 6);
  CHECK(entry.feed.own == 6);
  CHECK(made[0].prefix == Tokens{0, 7}); // the chain's token at 5, and the fork's
  const auto& from = world.built.feed.pages->ids;
  const auto& own = entry.feed.pages->ids;
  CHECK(own[0] == from[0]);
  CHECK(own[1] != from[1]); // position 6 is inside of it
  REQUIRE(made[0].copy);
  CHECK(made[0].copy->from == from[1]);
  CHECK(made[0].copy->to == own[1]);
  CHECK(own.size() == 3);
  CHECK(own[2] != from[2]);
}

TEST_CASE("a fork that begins with a page needs no copy") {
  InFlight world;
  world.fork(8, 7, 11);
  const std::vector<Branch> ahead{world.branch(0), world.branch(1)};
  const auto made = alternatives(world.entry(2), window, ahead, *world.pool);
  REQUIRE(made.size() == 1);
  CHECK_FALSE(made[0].copy);
}

TEST_CASE("a fork goes on from the last pass that has rows for it, on the same pages") {
  InFlight world;
  const ChainRef fork = world.fork(6, 7, 9);
  std::vector<Branch> ahead{world.branch(0)};
  const auto first = alternatives(world.entry(1), window, ahead, *world.pool);
  REQUIRE(first.size() == 1);
  const BatchEntry& begun = first[0].entry;
  ahead.push_back(world.branch(1));
  ahead.push_back({fork, begun.length, begun.round.window, begun.feed.pages, 6, 0.1});
  CHECK(alternatives(world.entry(2), window, ahead, *world.pool).empty()); // not drawn that far
  draw(*fork, 12);
  const auto second = alternatives(world.entry(2), window, ahead, *world.pool);
  REQUIRE(second.size() == 1);
  const BatchEntry& on = second[0].entry;
  CHECK(on.length == begun.length + begun.round.window + 1);
  CHECK(on.round.window == 2);
  CHECK(on.feed.own == 6);
  CHECK_FALSE(second[0].copy);
  CHECK(second[0].prefix == Tokens{0, 7, 2, 3, 4});
  CHECK(on.feed.pages->ids[1] == begun.feed.pages->ids[1]);
}

TEST_CASE("the likeliest forks have the rows there are, while there are pages") {
  InFlight world;
  const ChainRef second = world.fork(6, 7, 9);
  const ChainRef likeliest = world.fork(5, 6, 9);
  const ChainRef last = world.fork(7, 7, 9);
  const std::vector<Branch> ahead{world.branch(0)};
  BatchEntry entry = world.entry(1);
  entry.forks.rows = 5;
  auto made = alternatives(entry, window, ahead, *world.pool);
  REQUIRE(made.size() == 2);
  CHECK(made[0].entry.round.chain == likeliest);
  CHECK(made[0].entry.round.window == 3);
  CHECK(made[1].entry.round.chain == second);
  CHECK(made[1].entry.round.window == 0); // a row that draws
  last->close();
  second->close();
  entry.forks.rows = 20;
  CHECK(alternatives(entry, window, ahead, *world.pool).size() == 1);
  made.clear();
  std::vector<gpu::PageRef> taken; // all pages are somebody's
  while (auto page = world.pool->take())
    taken.push_back(std::move(page));
  CHECK(alternatives(entry, window, ahead, *world.pool).empty());
}

TEST_CASE("no fork has more fed once more than is allowed") {
  InFlight world;
  world.fork(5, 6, 11);
  const std::vector<Branch> ahead{world.branch(0)};
  BatchEntry entry = world.entry(1);
  entry.forks.again_max = 3;
  const auto made = alternatives(entry, window, ahead, *world.pool);
  REQUIRE(made.size() == 1);
  CHECK(made[0].entry.length + made[0].entry.round.window + 1 - *made[0].entry.feed.own == 3);
}

TEST_CASE(
    "behind a full hit the next pass goes on as it was built, and those behind it stay open") {
  const InFlight world;
  PassOutcome first;
  const auto next = world.behind(first, 1);
  const auto last = world.behind(*next, 2);
  REQUIRE(next->begin({world.branch(1)}, {world.branch(0)}));
  CHECK(ids(world.go_on(first, world.chain, 8)) == std::vector<std::uint64_t>{11, 12});
  CHECK(next->fate() == PassFate::goes_on);
  CHECK(next->came_true() == std::vector<std::size_t>{0});
  CHECK(last->fate() == PassFate::open);
}

TEST_CASE("behind a fork those passes stay that have a part of it, and the others end") {
  InFlight world;
  const ChainRef fork = world.fork(6, 7, 20);
  const ChainRef other = world.fork(5, 7, 20);
  PassOutcome first;
  std::vector<std::shared_ptr<PassOutcome>> behind;
  for (int i = 1; i <= 4; ++i)
    behind.push_back(world.behind(i == 1 ? first : *behind.back(), i));
  const auto pages = world.built.feed.pages;
  const Branch own{fork, 7, 1, pages, 6, 0.1};
  const Branch goes_on{fork, 9, 2, pages, 6, 0.1};
  const Branch elsewhere{other, 6, 2, pages, 5, 0.1};
  REQUIRE(behind[0]->begin({world.branch(1), elsewhere}, {}));
  REQUIRE(behind[1]->begin({world.branch(2), elsewhere, own}, {}));
  REQUIRE(behind[2]->begin({world.branch(3), goes_on}, {}));
  const auto continuations = world.go_on(first, fork, 7); // the last one has not begun
  CHECK(ids(continuations) == std::vector<std::uint64_t>{12, 13});
  CHECK(continuations[1].length == 9);
  CHECK(continuations[1].own == 6);
  CHECK(behind[0]->fate() == PassFate::ends);
  CHECK(behind[1]->fate() == PassFate::goes_on);
  CHECK(behind[1]->came_true() == std::vector<std::size_t>{2});
  CHECK(behind[2]->fate() == PassFate::open);
  CHECK(behind[3]->fate() == PassFate::ends);
  CHECK_FALSE(behind[3]->begin({world.branch(4)}, {}));
}

TEST_CASE("a pass that comes when the one ahead was judged ends") {
  const InFlight world;
  PassOutcome first;
  CHECK(world.go_on(first, world.chain, 8).empty());
  CHECK(world.behind(first, 1)->fate() == PassFate::ends);
}

TEST_CASE("a pass that has not begun goes on only with its whole window bound") {
  for (const bool bound : {false, true}) {
    InFlight world;
    PassOutcome ahead;
    const auto behind = world.behind(ahead, 5); // at 20
    if (bound)
      draw(*world.chain, 22);
    CHECK(world.go_on(ahead, world.chain, 20).empty() == !bound);
    CHECK(behind->fate() == (bound ? PassFate::goes_on : PassFate::ends));
  }
}

TEST_CASE("what may not come true any more is nothing to go on from") {
  InFlight world;
  const ChainRef fork = world.fork(6, 7, 9);
  PassOutcome outcome;
  REQUIRE(outcome.begin({world.branch(0), {fork, 7, 1, world.built.feed.pages, 6, 0.1}}, {}));
  CHECK(outcome.branches().size() == 2);
  fork->close();
  CHECK(outcome.branches().size() == 1);
}

namespace {

/// A pass of several sequences, and the one behind it; each next window is bound as a whole.
struct Abreast {
  explicit Abreast(int sequences) : verdicts(std::size_t(sequences)) {
    Batch batch;
    for (int i = 0; i < sequences; ++i) {
      chains.push_back(std::make_shared<Chain>(std::uint64_t(i)));
      chains.back()->begin(5, 7, 30);
      draw(*chains.back(), 20);
      batch.entries.emplace_back();
      batch.entries.back().length = 8;
      batch.entries.back().round = {true, chains.back(), window, true, true};
    }
    behind = PassOutcome::behind(judged, batch);
  }
  /// The numbers of the verdicts that say that it goes on, where these sequences go on so.
  std::vector<std::size_t> go_on(const std::vector<Onset>& onsets) {
    PassOutcome::go_on(judged, onsets, verdicts);
    std::vector<std::size_t> on;
    for (std::size_t i = 0; i < verdicts.size(); ++i)
      if (verdicts[i].goes_on())
        on.push_back(i);
    return on;
  }

  std::vector<ChainRef> chains;
  PassOutcome judged;
  std::shared_ptr<PassOutcome> behind;
  std::vector<Verdict> verdicts;
};

using Numbers = std::vector<std::size_t>;

} // namespace

TEST_CASE("a pre-enqueued batch runs for all of a batch that hit") {
  Abreast pair(2);
  CHECK(pair.go_on({{0, pair.chains[0], 8}, {1, pair.chains[1], 8}}) == Numbers{0, 1});
  CHECK(pair.behind->came_true() == Numbers{0, 1});
}

TEST_CASE("a pre-enqueued batch runs for nobody where one of a batch missed") {
  Abreast first(2);
  CHECK(first.go_on({{0, nullptr, 6}, {1, first.chains[1], 8}}).empty());
  CHECK(first.behind->fate() == PassFate::ends);
  Abreast second(2);
  CHECK(second.go_on({{0, second.chains[0], 8}, {1, std::make_shared<Chain>(1), 7}}).empty());
  CHECK(second.behind->fate() == PassFate::ends);
}

TEST_CASE("a pre-enqueued batch runs without those that are over") {
  Abreast three(3);
  CHECK(three.go_on({{0, three.chains[0], 8}, {2, three.chains[2], 8}}) == Numbers{0, 2});
  CHECK(three.behind->came_true() == Numbers{0, 2});
  Abreast pair(2);
  CHECK(pair.go_on({}).empty());
  CHECK(pair.behind->fate() == PassFate::ends);
}

TEST_CASE("a pre-enqueued batch does not run where a next window is not bound as a whole") {
  Abreast pair(2);
  pair.chains[1] = std::make_shared<Chain>(1);
  pair.chains[1]->begin(5, 7, 30);
  draw(*pair.chains[1], 9);
  Batch batch;
  for (const ChainRef& chain : pair.chains) {
    batch.entries.emplace_back();
    batch.entries.back().length = 8;
    batch.entries.back().round = {true, chain, window, true, true};
  }
  pair.behind = PassOutcome::behind(pair.judged, batch);
  CHECK(pair.go_on({{0, pair.chains[0], 8}, {1, pair.chains[1], 8}}).empty());
}
