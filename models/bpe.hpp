// Byte-pair encoding of one word (Sennrich et al. 2016), over bytes as GPT-2 does it.
#pragma once

#include "paceline/request.hpp"

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Immutable once filled. Threads: `encode` from any, each with its own scratch.
class Bpe {
public:
  struct Merge {
    std::uint32_t rank = 0; ///< Lower ranks merge first.
    TokenId token = 0;      ///< What the pair becomes.
  };
  /// Grows to the longest word and is reused.
  struct Scratch {
    struct Node {
      TokenId token;
      std::uint32_t rank; ///< Of the merge with the next node; `no_merge` if there is none.
      std::int32_t previous;
      std::int32_t next;
      TokenId merged; ///< What that merge gives.
    };
    std::vector<Node> nodes;
    std::vector<std::uint64_t> heap;
  };

  Bpe() { byte_tokens.fill(-1); }

  /// Appends the word's tokens: the pair of lowest rank merges first, the leftmost of equals;
  /// O(n log n). A byte without a token is left out, as the reference implementation does.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

  static std::uint64_t pair(TokenId left, TokenId right) {
    return std::uint64_t(std::uint32_t(left)) << 32 | std::uint32_t(right);
  }

  std::array<TokenId, 256> byte_tokens; ///< -1: none.
  boost::unordered_flat_map<std::uint64_t, Merge> merges;
  /// Words that are tokens as a whole, whatever the merges say (`ignore_merges`); else empty.
  boost::unordered_flat_map<std::string, TokenId> words;

private:
  static constexpr std::uint32_t no_merge = ~0u;
  bool lay_out(std::string_view word, Scratch& scratch) const;
  void find_merge(Scratch& scratch, std::int32_t at) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;
  void merge_at(Scratch& scratch, std::int32_t at) const;
};

} // namespace paceline::models
