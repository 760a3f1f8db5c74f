// Text to token ids and back, as tokenizer.json describes it.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text {

/// Immutable. Threads: all members from any.
class Tokenizer {
public:
  /// Reads a tokenizer.json: BPE of bytes or characters, or Unigram; what it asks for and is not
  /// known here is refused by name. name: where it comes from, for messages.
  static Result<std::shared_ptr<const Tokenizer>> parse(const std::string& name,
                                                        std::string_view json);
  virtual ~Tokenizer() = default;

  /// Ids of a text; invalid UTF-8 is replaced by U+FFFD first. add_special: what the checkpoint's
  /// post-processor adds (such as a BOS).
  virtual std::vector<TokenId> encode(std::string_view text, bool add_special = true) const = 0;
  /// How the special tokens that a text spells are read.
  struct Encoding {
    bool add_special = true;
    bool parse_special = true; ///< false: as any other text.
    /// Taken out of the text once they are found: what it stands in is none (`mark_special`).
    std::string_view mark;
  };
  /// The default is that of a tokenizer without special tokens.
  virtual std::vector<TokenId> encode_as(const Encoding& how, std::string_view text) const {
    return encode(text, how.add_special);
  }
  /// The text, with `mark` in each special token that it spells.
  virtual std::string mark_special(std::string_view text, std::string_view /*mark*/) const {
    return std::string(text);
  }
  /// Bytes of one token inside a text: may be part of a UTF-8 character. Unknown ids and (unless
  /// keep_special) special tokens give nothing.
  virtual std::string bytes(TokenId id, bool keep_special = false) const = 0;

  /// What is still to be left out where a text begins: the blank that encoding put before it.
  struct Opening {
    bool first = false; ///< No token was shown yet.
    int strip = 0;      ///< As many blanks may still go.
    bool over() const { return !first && strip == 0; }
  };
  virtual Opening opening() const { return {}; }
  /// `bytes` of a token of which `opening` says how far the text is; moves it on.
  virtual std::string first_bytes(TokenId id, bool keep_special, Opening& /*opening*/) const {
    return bytes(id, keep_special);
  }
  /// The token as the vocabulary spells it, for display ("Ġdef").
  virtual std::string piece(TokenId id) const = 0;
  /// One more than the largest known id.
  virtual int vocabulary() const = 0;
  virtual bool known(TokenId id) const = 0;
  virtual std::vector<TokenId> special_ids() const = 0;

  /// A token as log-probabilities name it: its text, special tokens included; "bytes:\xf0\x9f",
  /// each byte as two digits, where that is no valid UTF-8; "token_id:7" where it has no bytes.
  std::string name(TokenId id) const;
  /// All bytes in order, invalid UTF-8 as U+FFFD.
  std::string decode(std::span<const TokenId> ids, bool keep_special = false) const;
};

/// Tokens to bytes as they come; the bytes together are those of all tokens decoded at once.
class Detokenizer {
public:
  /// tokenizer: must outlive this.
  explicit Detokenizer(const Tokenizer& tokenizer, bool keep_special = false)
      : tokenizer_(&tokenizer), opening_(tokenizer.opening()), keep_special_(keep_special) {}
  /// ends: the text ends with it, so it is not shown if it is special.
  std::string feed(TokenId id, bool ends = false);
  /// What follows does not depend on what came before.
  bool begun() const { return opening_.over(); }

private:
  const Tokenizer* tokenizer_;
  Tokenizer::Opening opening_;
  bool keep_special_;
};

/// Compares two vocabularies by content. Padding (ids only one side has) is welcome; an id that
/// means different tokens is an error naming it.
Result<void> check_same_vocabulary(const Tokenizer& target, const Tokenizer& draft);

} // namespace paceline::text
