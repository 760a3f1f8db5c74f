// Passes of one sequence in the stages of a target: what they have rows for, and what is left of
// them behind a verdict.
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
using Fate = Flight::Fate;

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

  /// Number 0 waits for nothing.
  std::shared_ptr<ForwardPass> pass(int number) {
    auto made = std::make_shared<ForwardPass>(4);
    made->batch.id = std::uint64_t(10 + number);
    made->batch.entries = {entry(number)};
    return made;
  }
  BatchEntry entry(int number) const {
    BatchEntry entry = built;
    entry.length = 5 + number * (window + 1);
    entry.assumed = entry.length - 5;
    entry.feed.cached = entry.length - 1;
    return entry;
  }
  Standing standing(int number) const {
    const BatchEntry of = entry(number);
    return {of.round.chain, of.length, of.round.window, of.feed.pages, {}, 1};
  }
  /// Of `chain`, with tokens up to `end`.
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

std::vector<std::uint64_t> ids(const std::vector<Onward>& onward) {
  std::vector<std::uint64_t> all;
  for (const Onward& on : onward)
    all.push_back(on.batch);
  return all;
}

} // namespace

TEST_CASE("a fork of a pass ahead has rows, its tokens and pages of its own in the next one") {
  InFlight world;
  const ChainRef fork = world.fork(6, 7, 9);
  const std::vector<Standing> ahead{world.standing(0)};
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
  const std::vector<Standing> ahead{world.standing(0), world.standing(1)};
  const auto made = alternatives(world.entry(2), window, ahead, *world.pool);
  REQUIRE(made.size() == 1);
  CHECK_FALSE(made[0].copy);
}

TEST_CASE("a fork goes on from the last pass that has rows for it, on the same pages") {
  InFlight world;
  const ChainRef fork = world.fork(6, 7, 9);
  std::vector<Standing> ahead{world.standing(0)};
  const auto first = alternatives(world.entry(1), window, ahead, *world.pool);
  REQUIRE(first.size() == 1);
  const BatchEntry& begun = first[0].entry;
  ahead.push_back(world.standing(1));
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
  const std::vector<Standing> ahead{world.standing(0)};
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
  const std::vector<Standing> ahead{world.standing(0)};
  BatchEntry entry = world.entry(1);
  entry.forks.again_max = 3;
  const auto made = alternatives(entry, window, ahead, *world.pool);
  REQUIRE(made.size() == 1);
  CHECK(made[0].entry.length + made[0].entry.round.window + 1 - *made[0].entry.feed.own == 3);
}

TEST_CASE(
    "behind a full hit the next pass goes on as it was built, and those behind it stay open") {
  InFlight world;
  const auto first = world.pass(0);
  const auto next = world.pass(1);
  const auto last = world.pass(2);
  Flight::line_up(*first, next);
  Flight::line_up(*next, last);
  REQUIRE(next->flight.stand({world.standing(1)}, {world.standing(0)}));
  CHECK(ids(Flight::go_on(first->flight, world.chain, 8)) == std::vector<std::uint64_t>{11, 12});
  CHECK(next->flight.fate() == Fate::goes_on);
  CHECK(next->flight.came_true() == 0);
  CHECK(last->flight.fate() == Fate::open);
}

TEST_CASE("behind a fork those passes stay that have a part of it, and the others end") {
  InFlight world;
  const ChainRef fork = world.fork(6, 7, 20);
  const ChainRef other = world.fork(5, 7, 20);
  const auto first = world.pass(0);
  std::vector<std::shared_ptr<ForwardPass>> behind;
  for (int i = 1; i <= 4; ++i) {
    behind.push_back(world.pass(i));
    Flight::line_up(i == 1 ? *first : *behind[std::size_t(i) - 2], behind.back());
  }
  const auto pages = world.built.feed.pages;
  const Standing own{fork, 7, 1, pages, 6, 0.1};
  const Standing goes_on{fork, 9, 2, pages, 6, 0.1};
  const Standing elsewhere{other, 6, 2, pages, 5, 0.1};
  REQUIRE(behind[0]->flight.stand({world.standing(1), elsewhere}, {}));
  REQUIRE(behind[1]->flight.stand({world.standing(2), elsewhere, own}, {}));
  REQUIRE(behind[2]->flight.stand({world.standing(3), goes_on}, {}));
  const auto onward = Flight::go_on(first->flight, fork, 7); // the last one has not begun
  CHECK(ids(onward) == std::vector<std::uint64_t>{12, 13});
  CHECK(onward[1].length == 9);
  CHECK(onward[1].own == 6);
  CHECK(behind[0]->flight.fate() == Fate::ends);
  CHECK(behind[1]->flight.fate() == Fate::goes_on);
  CHECK(behind[1]->flight.came_true() == 2);
  CHECK(behind[2]->flight.fate() == Fate::open);
  CHECK(behind[3]->flight.fate() == Fate::ends);
  CHECK_FALSE(behind[3]->flight.stand({world.standing(4)}, {}));
}

TEST_CASE("a pass that comes when the one ahead was judged ends") {
  InFlight world;
  const auto first = world.pass(0);
  CHECK(Flight::go_on(first->flight, world.chain, 8).empty());
  const auto late = world.pass(1);
  Flight::line_up(*first, late);
  CHECK(late->flight.fate() == Fate::ends);
}

TEST_CASE("a pass that has not begun goes on only with its whole window bound") {
  for (const bool bound : {false, true}) {
    InFlight world;
    const auto ahead = world.pass(4);
    const auto behind = world.pass(5); // at 20
    Flight::line_up(*ahead, behind);
    if (bound)
      draw(*world.chain, 22);
    CHECK(Flight::go_on(ahead->flight, world.chain, 20).empty() == !bound);
    CHECK(behind->flight.fate() == (bound ? Fate::goes_on : Fate::ends));
  }
}

TEST_CASE("what may not come true any more is nothing to go on from") {
  InFlight world;
  const ChainRef fork = world.fork(6, 7, 9);
  const auto pass = world.pass(0);
  REQUIRE(
      pass->flight.stand({world.standing(0), {fork, 7, 1, world.built.feed.pages, 6, 0.1}}, {}));
  CHECK(pass->flight.standings().size() == 2);
  fork->close();
  CHECK(pass->flight.standings().size() == 1);
}

TEST_CASE("a fork's page is copied by each stage that has layers, and by no other") {
  InFlight world;
  const models::LayerRange with_layers{1, 1};
  const models::LayerRange head_alone{2, 0}; // whose pages are the first stage's
  for (const auto& layers : {with_layers, head_alone}) {
    CAPTURE(layers.count);
    Stage stage{1, models::make_scripted_stage(world.script, layers, 2, world.device).value(),
                world.pool, nullptr, nullptr};
    stage.workspace = stage.model->make_workspace(8, 8).value();
    const auto pass = world.pass(0);
    ForwardPass::Rows& rows = pass->rows.emplace_back();
    rows.tokens = {1, 2};
    rows.copy = gpu::PageCopy{1, 2};
    pass->retirement.completed = true;
    ForwardStep step(stage, pass, world.telemetry);
    REQUIRE(step.prepare({}) == gpu::Step::Next::ready);
    CHECK(step.copies().size() == std::size_t(layers.count));
  }
}
