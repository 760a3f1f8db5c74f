// The tokens of a vocabulary, by id and by spelling.
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

/// Allows a map with string keys to be searched for a string_view.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

class Vocabulary {
public:
  struct Token {
    std::string piece; ///< The token's spelling in the vocabulary.
    bool known = false;
    bool special = false;
  };

  /// Reads the model's "vocab": {piece: id} or [[piece, score] by id], in which null in a score's
  /// place means that no text becomes this token. path: for messages.
  static Result<Vocabulary> read(const std::string& path, const boost::json::value* vocab);

  /// Adds a token, or marks one that is there. Returns false if another token has this id or this
  /// piece.
  bool add(std::string_view piece, TokenId id, bool special = false);

  std::optional<TokenId> find(std::string_view piece) const;
  const std::vector<Token>& tokens() const { return tokens_; } ///< All tokens, by id.
  /// Returns the tokens <0x00> to <0xFF>; -1: none.
  std::array<TokenId, 256> byte_fallback_tokens() const;

private:
  std::vector<Token> tokens_;
  boost::unordered_flat_map<std::string, TokenId, StringHash, std::equal_to<>> ids_;
};

/// Returns an id from JSON, none if it is out of range (limits::vocabulary_max).
std::optional<TokenId> id_of(const boost::json::value* value);

/// Returns the bytes that a piece spells in GPT-2's alphabet, in which each byte is a printable
/// character; none if it has other characters.
std::optional<std::string> spelled_bytes(std::string_view piece);

} // namespace paceline::text
