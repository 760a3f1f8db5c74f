// Finds the strings of a set that a text begins with.
#pragma once

#include "paceline/request.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::text {

/// A byte trie; the labels of a node's children stand side by side. Immutable. Threads: any.
class Trie {
public:
  Trie() : Trie(std::vector<std::pair<std::string, TokenId>>{}) {}
  /// The last one of equal strings counts. Empty strings are left out.
  explicit Trie(std::vector<std::pair<std::string, TokenId>> entries);

  bool may_begin_with(char byte) const { return root_[static_cast<unsigned char>(byte)] != 0; }

  /// Calls found(length, id) for each entry that `text` begins with, the shortest first.
  template <class Found>
  void for_each_prefix(std::string_view text, Found found) const {
    if (text.empty())
      return;
    std::uint32_t at = root_[static_cast<unsigned char>(text[0])];
    for (std::size_t length = 1; at != 0; ++length) {
      const Node& node = nodes_[at];
      if (node.id >= 0)
        found(length, node.id);
      if (length == text.size() || node.children == 0)
        return;
      const void* label = std::memchr(labels_.data() + node.first,
                                      static_cast<unsigned char>(text[length]), node.children);
      at = label ? std::uint32_t(static_cast<const char*>(label) - labels_.data()) : 0;
    }
  }

private:
  struct Node {
    std::uint32_t first = 0;    ///< Index of the first child.
    std::uint32_t children = 0; ///< Number of children, at most 256.
    TokenId id = -1;            ///< -1: no entry ends here.
  };
  std::vector<Node> nodes_; ///< [0] is the root.
  std::string labels_;      ///< The byte that leads to each node.
  std::array<std::uint32_t, 256> root_{};
};

} // namespace paceline::text
