#include "execution/token_tree.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace paceline::execution {
namespace {

using scheduling::BatchEntry;
using speculation::Chain;

/// A row that a path could have: its guess, or the token so far behind it.
struct Node {
  std::size_t path = 0;
  double chance = 0; ///< Chance that it brings a token: all of its path before it comes true.
};

speculation::ChainRef fork_at(const std::vector<Chain::Fork>& forks, int position, TokenId token) {
  const auto at = std::ranges::find_if(forks, [&](const Chain::Fork& fork) {
    return fork.position == position && fork.token == token;
  });
  return at == forks.end() ? nullptr : at->chain;
}

/// Lists all paths with a guess in place of one of the window's tokens, and their rows.
class Candidates {
public:
  Candidates(const BatchEntry& entry, int window) : entry_(entry), end_(entry.length + window) {
    const Chain& chain = *entry.round.chain;
    const std::vector<Chain::Fork> forks = chain.forks();
    double reached = 1;
    for (int position = entry.length; position < end_; ++position) {
      const sampling::Guesses& guesses = chain.guesses(position);
      for (int rank = 0; rank < guesses.count; ++rank) {
        const TokenId token = guesses.tokens[std::size_t(rank)];
        if (!ends_text(token))
          add(position, token, odds().outcome(reached, guesses, rank),
              fork_at(forks, position, token));
      }
      reached *= odds().accepted(guesses);
    }
  }

  /// Takes the likeliest rows. A row is never likelier than those that it stands behind.
  std::vector<TreePath> best() {
    std::ranges::stable_sort(nodes_, std::greater(), &Node::chance);
    std::vector<int> counts(paths_.size());
    int rows = 0;
    for (const Node& node : nodes_) {
      if (rows == entry_.round.tree.rows || node.chance < entry_.round.tree.least)
        break;
      ++rows;
      ++counts[node.path];
      paths_[node.path].expected += node.chance;
    }
    for (std::size_t i = 0; i < paths_.size(); ++i)
      paths_[i].tokens.resize(std::size_t(counts[i]));
    std::erase_if(paths_, [](const TreePath& path) { return path.tokens.empty(); });
    return std::move(paths_);
  }

private:
  const sampling::Odds& odds() const { return entry_.round.tree.odds; }

  bool ends_text(TokenId token) const {
    return std::ranges::find(entry_.spec->end_of_text, token) != entry_.spec->end_of_text.end();
  }

  /// Adds a path. There is none where a token of its fork is being drawn: that is bound, so it is
  /// judged with the fork, later.
  void add(int position, TokenId guess, double chance, speculation::ChainRef fork) {
    const int bound = fork ? fork->bound() : position + 1;
    if (fork && fork->drawn() < bound)
      return;
    TreePath path;
    path.position = position;
    path.tokens.push_back(guess);
    nodes_.push_back({paths_.size(), chance});
    for (int i = position + 1; i < std::min(bound, end_); ++i) {
      path.tokens.push_back(fork->token(i));
      nodes_.push_back({paths_.size(), chance * odds().acceptance}); // whichever token it is
      chance *= odds().accepted(fork->guesses(i));
    }
    path.chain = std::move(fork);
    paths_.push_back(std::move(path));
  }

  const BatchEntry& entry_;
  int end_;
  std::vector<TreePath> paths_;
  std::vector<Node> nodes_;
};

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

std::vector<TreePath> tree_paths(const BatchEntry& entry, int window, gpu::KvPool& pool) {
  if (entry.round.tree.rows == 0 || window == 0 || pool.shape().state_bytes > 0)
    return {}; // A state is of one chain.
  std::vector<TreePath> paths = Candidates(entry, window).best();
  for (std::size_t i = 0; i < paths.size(); ++i)
    if (!take_pages(paths[i], entry, pool))
      paths.resize(i);
  return paths;
}

} // namespace paceline::execution
