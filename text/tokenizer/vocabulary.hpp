// Tokens by id and by how they are spelled.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"

#include <array>
#include <boost/json/value.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text {

/// Lets a map of strings be asked for a string_view.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

class Vocabulary {
public:
  struct Token {
    std::string piece; ///< As the vocabulary spells it.
    bool known = false;
    bool special = false;
  };

  /// The model's "vocab": {piece: id} or [[piece, score] by id], where null in a score's place says
  /// that no text becomes this token. path: for messages.
  static Result<Vocabulary> read(const std::string& path, const boost::json::value* vocab);

  /// Adds a token, or marks one that is there. False: another token has this id or this piece.
  bool add(std::string_view piece, TokenId id, bool special = false);

  std::optional<TokenId> find(std::string_view piece) const;
  const std::vector<Token>& tokens() const { return tokens_; } ///< By id.
  /// Tokens <0x00> to <0xFF>; -1: none.
  std::array<TokenId, 256> byte_fallback_tokens() const;

private:
  std::vector<Token> tokens_;
  boost::unordered_flat_map<std::string, TokenId, StringHash, std::equal_to<>> ids_;
};

/// An id from JSON, none when out of range (limits::vocabulary_max).
std::optional<TokenId> id_of(const boost::json::value* value);

/// The bytes that a piece spells in GPT-2's alphabet, in which each byte is a printable character;
/// none when it has other characters.
std::optional<std::string> spelled_bytes(std::string_view piece);

} // namespace paceline::text
