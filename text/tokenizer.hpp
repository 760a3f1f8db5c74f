// Converts text to token ids and back, as tokenizer.json describes it.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text {

/// A checkpoint's tokenizer. Immutable. Threads: all members from any.
class Tokenizer {
public:
  /// Reads a tokenizer.json: BPE of bytes or characters, or Unigram; a part that is not known here
  /// is refused by name. name: the place of the file, for messages.
  static Result<std::shared_ptr<const Tokenizer>> parse(const std::string& name,
                                                        std::string_view json);
  virtual ~Tokenizer() = default;

  /// Returns the ids of a text; invalid UTF-8 is replaced by U+FFFD first. add_special: adds what
  /// the checkpoint's post-processor adds (such as a BOS).
  virtual std::vector<TokenId> encode(std::string_view text, bool add_special = true) const = 0;
  /// Options for the special tokens that a text spells.
  struct Encoding {
    bool add_special = true;
    bool parse_special = true; ///< false: they are read as any other text.
    /// Removed from the text once special tokens are found: a token that contains it is text
    /// (`mark_special`).
    std::string_view mark;
  };
  /// Encodes with options. The default is that of a tokenizer without special tokens.
  virtual std::vector<TokenId> encode_as(const Encoding& how, std::string_view text) const {
    return encode(text, how.add_special);
  }
  /// Returns the text with `mark` in each special token that it spells.
  virtual std::string mark_special(std::string_view text, std::string_view /*mark*/) const {
    return std::string(text);
  }
  /// Returns the bytes of one token inside a text, which may be a part of a UTF-8 character.
  /// Unknown ids and (unless keep_special) special tokens give nothing.
  virtual std::string bytes(TokenId id, bool keep_special = false) const = 0;

  /// What is still to be left out at the beginning of a text: the blank that encoding put before
  /// it.
  struct Opening {
    bool first = false; ///< No token was shown yet.
    int strip = 0;      ///< Number of blanks that may still be left out.
    bool over() const { return !first && strip == 0; }
  };
  virtual Opening opening() const { return {}; }
  /// Returns the bytes of a token near the beginning of a text; `opening` says how near, and is
  /// updated.
  virtual std::string first_bytes(TokenId id, bool keep_special, Opening& /*opening*/) const {
    return bytes(id, keep_special);
  }
  /// Returns the token as the vocabulary spells it, for display ("Ġdef").
  virtual std::string piece(TokenId id) const = 0;
  /// Returns one more than the largest known id.
  virtual int vocabulary() const = 0;
  virtual bool known(TokenId id) const = 0;
  virtual std::vector<TokenId> special_ids() const = 0;

  /// Returns a token as log-probabilities name it: its text, special tokens included;
  /// "bytes:\xf0\x9f", each byte as two digits, if that is not valid UTF-8; "token_id:7" if it has
  /// no bytes.
  std::string name(TokenId id) const;
  /// Returns all bytes in order, with U+FFFD for invalid UTF-8.
  std::string decode(std::span<const TokenId> ids, bool keep_special = false) const;
};

/// Converts tokens to bytes as they come; the bytes together are those of all tokens decoded at
/// once.
class Detokenizer {
public:
  /// tokenizer: must outlive this object.
  explicit Detokenizer(const Tokenizer& tokenizer, bool keep_special = false)
      : tokenizer_(&tokenizer), opening_(tokenizer.opening()), keep_special_(keep_special) {}
  /// Returns a token's bytes. ends: the text ends with the token, so it is not shown if it is
  /// special.
  std::string feed(TokenId id, bool ends = false);
  /// Returns whether the bytes of further tokens do not depend on what came before.
  bool begun() const { return opening_.over(); }

private:
  const Tokenizer* tokenizer_;
  Tokenizer::Opening opening_;
  bool keep_special_;
};

/// Compares two vocabularies by content. Padding (ids that only one side has) is accepted; an id
/// that means different tokens is an error that names it.
Result<void> check_same_vocabulary(const Tokenizer& target, const Tokenizer& draft);

} // namespace paceline::text
