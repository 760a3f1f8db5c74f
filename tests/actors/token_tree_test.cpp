// Which rows stand beside a window, and where their keys and values lie.
#include "execution/token_tree.hpp"
#include "tests/actors/models_world.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::execution;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::testing;

namespace {

constexpr int committed = 6;
constexpr int tree_window = 3;
const Tokens tree_prompt{1, 2, 3, 4, 5, 6};

/// Two guesses; the first takes a rejected token's place half the time.
sampling::Guesses two_guesses(TokenId first, TokenId second, float margin = 0.2f) {
  sampling::Guesses guesses;
  guesses.tokens = {first, second};
  guesses.count = 2;
  guesses.margin = margin;
  return guesses;
}

void write(Chain& chain, int end, float margin = 0.2f) {
  for (int i = chain.drawn(); i < end; ++i) {
    chain.bind(i + 1);
    chain.put(i, TokenId(i % 5), nullptr, two_guesses(6, 7, margin));
  }
}

/// A sequence of six tokens in pages of four, and a window of three behind it.
struct Tree : ModelWorld {
  explicit Tree(int rows) {
    chain->begin(committed, committed + tree_window, committed + tree_window);
    write(*chain, committed + tree_window);
    entry.spec = greedy(1, 6);
    entry.log = std::make_shared<TokenLog>(tree_prompt, 100);
    entry.length = committed;
    entry.feed.cached = committed - 1;
    entry.feed.pages = pages(32);
    entry.round = {true, chain, tree_window, true, false, {}};
    entry.round.tree.rows = rows;
    entry.round.tree.odds.acceptance = 0.5;
    entry.round.tree.odds.by_margin.fill(0.5);
    entry.round.tree.odds.guess = {0.5, 0.25};
  }
  ChainRef fork(int position, TokenId token, int end, float margin = 0.2f) {
    auto made = std::make_shared<Chain>(1);
    made->begin_fork(position + 1, committed + tree_window, committed, ++forks);
    write(*made, end, margin);
    chain->add_fork(position, token, made);
    return made;
  }
  std::vector<TreePath> paths() const { return tree_paths(entry, tree_window, *pool); }

  ChainRef chain = std::make_shared<Chain>(1);
  BatchEntry entry;
  int forks = 0;
};

} // namespace

TEST_CASE("the likeliest rows stand beside a window, guesses and what is drafted behind them") {
  Tree tree(4);
  const ChainRef fork = tree.fork(6, 6, 9);
  const auto paths = tree.paths(); // 0.25, its fork's 0.125 twice less, 0.125 for the other guesses
  REQUIRE(paths.size() == 3);
  CHECK(paths[0].position == 6);
  CHECK(paths[0].tokens == Tokens{6, 2}); // the guess, and the fork's token behind it
  CHECK(paths[0].chain == fork);
  CHECK(paths[1].position == 6);
  CHECK(paths[1].tokens == Tokens{7});
  CHECK(paths[2].position == 7);
  CHECK(paths[2].tokens == Tokens{6});
  CHECK(paths[0].expected + paths[1].expected + paths[2].expected == doctest::Approx(0.625));
}

TEST_CASE("a path has its own pages from its guess on, and shares the window's rows before it") {
  Tree tree(16);
  const auto& from = tree.entry.feed.pages->ids;
  for (const TreePath& path : tree.paths()) {
    CAPTURE(path.position);
    const std::size_t first = path.position < 8 ? 1 : 2; // of its pages that is not the sequence's
    REQUIRE(path.pages.size() == first + 1);
    CHECK(path.pages[first - 1] == from[first - 1]);
    CHECK(path.pages[first] != from[first]);
    CHECK(path.copy.has_value() == (first == 1)); // of position 4, for which the pass has no row
    if (path.copy)
      CHECK(path.copy->from == from[1]);
    CHECK(path.shared_from == (first == 1 ? 5 : 8));
  }
}

TEST_CASE("no path reaches behind the window, whatever is drafted") {
  Tree tree(48);
  tree.fork(6, 6, 9);
  tree.fork(8, 6, 9);
  for (const TreePath& path : tree.paths())
    CHECK(path.position + path.rows() <= committed + tree_window);
}

TEST_CASE("a guess whose fork has a token under way has no row") {
  Tree tree(48);
  const ChainRef fork = tree.fork(6, 6, 7);
  fork->bind(8);
  for (const TreePath& path : tree.paths())
    CHECK_FALSE((path.position == 6 && path.tokens.front() == 6));
  fork->put(7, 2, nullptr);
  CHECK(tree.paths().front().tokens == Tokens{6, 2});
}

TEST_CASE("whether a drafted token has a row does not depend on how sure the draft was of it") {
  std::vector<std::vector<int>> rows;
  for (const float margin : {-5.0f, 0.2f, 9.0f}) {
    Tree tree(5);
    tree.entry.round.tree.odds.by_margin = {0.01, 0.01, 0.1, 0.5, 0.5, 0.5, 0.7, 0.9, 0.99};
    tree.fork(6, 6, 8, margin);
    rows.emplace_back();
    for (const TreePath& path : tree.paths())
      rows.back().push_back(path.rows());
  }
  CHECK(rows[0] == rows[1]);
  CHECK(rows[0] == rows[2]);
}

TEST_CASE("rows that bring too little, and guesses that end the text, are left out") {
  Tree tree(48);
  tree.entry.round.tree.least = 0.2;
  CHECK(tree.paths().size() == 1);
  SequenceSpec spec = *tree.entry.spec;
  spec.end_of_text = {6};
  tree.entry.spec = std::make_shared<const SequenceSpec>(spec);
  CHECK(tree.paths().empty());
}

TEST_CASE("paths take what pages are left, and give them back") {
  Tree tree(48);
  std::vector<gpu::PageRef> others;
  while (auto page = tree.pool->take())
    others.push_back(std::move(page));
  CHECK(tree.paths().empty());
  others.resize(others.size() - 2);
  CHECK(tree.paths().size() == 2);
  CHECK(tree.pool->ledger().free == 2);
}
