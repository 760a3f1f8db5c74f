// Byte-pair encoding of one piece of text (Sennrich et al. 2016), over bytes as in GPT-2, or over
// characters as in SentencePiece.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"
#include "text/tokenizer/part.hpp"
#include "text/tokenizer/vocabulary.hpp"

#include <array>
#include <boost/json/array.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text {

/// A BPE model. Immutable once filled. Threads: `encode` from any, each with its own scratch.
class Bpe {
public:
  struct Merge {
    std::uint32_t rank = 0; ///< Lower ranks merge first.
    TokenId token = 0;      ///< The token that the pair becomes.
  };
  /// Memory that grows to the longest word and is reused.
  struct Scratch {
    struct Node {
      TokenId token;
      std::uint32_t rank; ///< Rank of the merge with the next node; `no_merge` if there is none.
      std::int32_t previous;
      std::int32_t next;
      TokenId merged; ///< The token that this merge gives.
    };
    std::vector<Node> nodes; ///< One per symbol of the word.
    std::vector<std::uint64_t> heap;
  };

  Bpe();
  /// Reads the "model" of tokenizer.json. byte_level: the vocabulary spells bytes in GPT-2's
  /// alphabet. A vocabulary with scores and without merges is SentencePiece's: any two tokens that
  /// make a third merge, and the highest score goes first.
  static Result<Bpe> read(Part& part, const Vocabulary& vocabulary, bool byte_level);

  /// Appends the word's tokens: the pair of lowest rank merges first, the leftmost of equals; O(n
  /// log n). What the vocabulary does not know becomes byte tokens or the unknown token, or is left
  /// out, as in the reference implementation.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

  static std::uint64_t pair(TokenId left, TokenId right) {
    return std::uint64_t(std::uint32_t(left)) << 32 | std::uint32_t(right);
  }

  bool byte_level = true;
  /// Tokens of bytes, or else of ASCII characters. -1: none.
  std::array<TokenId, 256> byte_tokens{};
  /// Tokens of the other characters.
  boost::unordered_flat_map<char32_t, TokenId> character_tokens;
  boost::unordered_flat_map<std::uint64_t, Merge> merges;
  /// Words that are whole tokens, whatever the merges say (`ignore_merges`); else empty.
  boost::unordered_flat_map<std::string, TokenId, StringHash, std::equal_to<>> words;
  /// Tokens such as <0x0A>; -1: none.
  std::array<TokenId, 256> fallback_tokens{};
  TokenId unknown = -1;      ///< -1: none.
  bool fuse_unknown = false; ///< Several unknown characters in a row become one token.
  /// Pairs of symbols that stand side by side in some token. No merge reaches over any other pair,
  /// so a long text falls into short ones there. None if that does not pay (byte level).
  std::optional<boost::unordered_flat_set<std::uint64_t>> joints;

private:
  static constexpr std::uint32_t no_merge = ~0u;
  Result<void> read_alphabet(Part& part, const Vocabulary& vocabulary);
  Result<void> read_unknown(Part& part, const Vocabulary& vocabulary);
  Result<void> read_merges(Part& part, const Vocabulary& vocabulary);
  void read_scores(const boost::json::array& scores, const Vocabulary& vocabulary);
  void add_merge(std::string_view left, std::string_view right, TokenId left_id, TokenId right_id,
                 Merge merge);
  void read_joint(std::string_view left, std::string_view right);
  void lay_out(std::string_view word, Scratch& scratch) const;
  std::size_t link_run(Scratch& scratch, std::size_t begin) const;
  bool fall_back(std::string_view character, Scratch& scratch) const;
  TokenId token_of(std::string_view word, std::size_t& size) const;
  void find_merge(Scratch& scratch, std::int32_t at) const;
  void merge_short(Scratch& scratch, std::size_t begin) const;
  void merge_long(Scratch& scratch, std::size_t begin, std::size_t end) const;
  void merge_at(Scratch& scratch, std::int32_t at) const;
};

} // namespace paceline::text
