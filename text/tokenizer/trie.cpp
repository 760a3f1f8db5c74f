#include "text/tokenizer/trie.hpp"

#include <algorithm>

namespace paceline::text {

/// Goes breadth first over the sorted entries: a node is the range of those that begin with its
/// string.
Trie::Trie(std::vector<std::pair<std::string, TokenId>> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    std::size_t begin;
    std::size_t end;
    std::size_t depth; ///< Bytes that all entries of the range share.
  };
  std::vector<Range> ranges{{0, entries.size(), 0}};
  nodes_.emplace_back();
  labels_ += '\0';
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    auto [begin, end, depth] = ranges[at];
    for (; begin < end && entries[begin].first.size() == depth; ++begin)
      nodes_[at].id = entries[begin].second;
    nodes_[at].first = std::uint32_t(nodes_.size());
    while (begin < end) {
      const char label = entries[begin].first[depth];
      std::size_t next = begin + 1;
      while (next < end && entries[next].first[depth] == label)
        ++next;
      nodes_.emplace_back();
      labels_ += label;
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
    nodes_[at].children = std::uint32_t(nodes_.size()) - nodes_[at].first;
  }
  for (std::uint32_t i = 0; i < nodes_[0].children; ++i)
    root_[static_cast<unsigned char>(labels_[nodes_[0].first + i])] = nodes_[0].first + i;
}

} // namespace paceline::text
