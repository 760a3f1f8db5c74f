#include "execution/token_tree.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

namespace paceline::execution {
namespace {

using scheduling::BatchEntry;
using speculation::Chain;

/// A row that the tree could have: a guess, or a token that was drafted behind it.
struct Node {
  int position = 0; ///< The guess's.
  TokenId guess = 0;
  const Chain::Fork* fork = nullptr; ///< What was drafted behind the guess; null: nothing.
  int depth = 0;                     ///< Tokens ahead of it on its path.
  /// Chance that it brings a token: all of its path up to it comes true. No less than that of a
  /// node behind it.
  double chance = 0;
};

const Chain::Fork* fork_at(std::span<const Chain::Fork> forks, int position, TokenId token) {
  const auto at = std::ranges::find_if(forks, [&](const Chain::Fork& fork) {
    return fork.position == position && fork.token == token;
  });
  return at == forks.end() ? nullptr : &*at;
}

/// Adds a guess and what is drafted behind it before `end`. Where a token of its fork is being
/// drawn nothing is added: that is bound, so it is judged with the fork, later.
void add_path(std::vector<Node>& nodes, Node node, int end, const sampling::Odds& odds) {
  const Chain* const chain = node.fork ? node.fork->chain.get() : nullptr;
  const int bound = chain ? chain->bound() : node.position + 1;
  if (chain && chain->drawn() < bound)
    return;
  nodes.push_back(node);
  double reached = node.chance;
  for (int i = node.position + 1; i < std::min(bound, end); ++i) {
    ++node.depth;
    node.chance = reached * odds.acceptance; // whichever token it is
    nodes.push_back(node);
    reached *= odds.accepted(chain->guesses(i));
  }
}

/// Lists all rows that the tree could have, the likeliest first. end: of the window.
std::vector<Node> nodes_of(const BatchEntry& entry, int end, std::span<const Chain::Fork> forks) {
  const std::vector<TokenId>& last = entry.spec->end_of_text;
  const sampling::Odds& odds = entry.round.tree.odds;
  std::vector<Node> nodes;
  double reached = 1;
  for (int position = entry.length; position < end; ++position) {
    const sampling::Guesses& guesses = entry.round.chain->guesses(position);
    for (int rank = 0; rank < guesses.count; ++rank) {
      const TokenId guess = guesses.tokens[std::size_t(rank)];
      if (std::ranges::find(last, guess) == last.end()) // else nothing comes behind it
        add_path(nodes,
                 {position, guess, fork_at(forks, position, guess), 0,
                  odds.outcome(reached, guesses, rank)},
                 end, odds);
    }
    reached *= odds.accepted(guesses);
  }
  std::ranges::stable_sort(nodes, std::greater(), &Node::chance);
  return nodes;
}

/// Adds a row to its path, which has all rows ahead of it by now.
void take(std::vector<TreePath>& paths, const Node& node) {
  if (node.depth == 0) {
    TreePath& begun = paths.emplace_back();
    begun.position = node.position;
    begun.chain = node.fork ? node.fork->chain : nullptr;
    begun.tokens = {node.guess};
    begun.expected = node.chance;
    return;
  }
  TreePath& path = *std::ranges::find_if(paths, [&](const TreePath& of) {
    return of.position == node.position && of.tokens.front() == node.guess;
  });
  path.tokens.push_back(path.chain->token(node.position + node.depth));
  path.expected += node.chance;
}

/// Gives a path its pages. False: there are not enough, since the sequences' own need comes first.
bool take_pages(TreePath& path, const BatchEntry& entry, gpu::KvPool& pool) {
  const gpu::PageTable& table = *entry.feed.pages;
  const int first = path.position / table.page_tokens;
  const int last = (path.position + path.rows() - 1) / table.page_tokens;
  path.pages.assign(table.ids.begin(), table.ids.begin() + first);
  for (int page = first; page <= last; ++page) {
    gpu::PageRef taken = pool.take();
    if (!taken)
      return false;
    path.pages.push_back(taken->id);
    path.own.push_back(std::move(taken));
  }
  const int begin = first * table.page_tokens;
  if (begin < std::min(entry.feed.cached, path.position))
    path.copy = gpu::PageCopy{table.ids[std::size_t(first)], path.own.front()->id};
  path.shared_from = std::max(begin, entry.feed.cached);
  return true;
}

} // namespace

gpu::PageTableRef TreePath::table(const gpu::PageTable& of) const {
  const auto shared = of.pages.begin() + std::ptrdiff_t(pages.size() - own.size());
  std::vector<gpu::PageRef> all(of.pages.begin(), shared);
  all.insert(all.end(), own.begin(), own.end());
  return gpu::PageTable::extend(nullptr, of.page_tokens, std::move(all));
}

std::vector<TreePath> tree_paths(const BatchEntry& entry, int window, gpu::KvPool& pool) {
  const scheduling::TreeRows& tree = entry.round.tree;
  if (tree.rows == 0 || window == 0 || pool.shape().state_bytes > 0)
    return {}; // A state is of one chain.
  const std::vector<Chain::Fork> forks = entry.round.chain->forks();
  std::vector<TreePath> paths;
  int rows = 0;
  for (const Node& node : nodes_of(entry, entry.length + window, forks)) {
    if (rows++ == tree.rows || node.chance < tree.least)
      break;
    take(paths, node);
  }
  for (std::size_t i = 0; i < paths.size(); ++i)
    if (!take_pages(paths[i], entry, pool))
      paths.resize(i);
  return paths;
}

} // namespace paceline::execution
