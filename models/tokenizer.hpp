// Text to token ids and back, as tokenizer.json describes it.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Immutable. Threads: all members from any.
class Tokenizer {
public:
  /// Reads `folder`/tokenizer.json: byte-level BPE. "scripted:..." names its own (scripted.hpp).
  static Result<std::shared_ptr<const Tokenizer>> load(const std::string& folder);
  virtual ~Tokenizer() = default;

  /// Ids of a text; invalid UTF-8 is replaced by U+FFFD first. add_special: what the checkpoint's
  /// post-processor adds (such as a BOS).
  virtual std::vector<TokenId> encode(std::string_view text, bool add_special = true) const = 0;
  /// Bytes of one token as decoding concatenates them: may be part of a UTF-8 character. Unknown
  /// ids and (unless keep_special) special tokens give nothing.
  virtual std::string bytes(TokenId id, bool keep_special = false) const = 0;
  /// The token as the vocabulary spells it, for display ("Ġdef").
  virtual std::string piece(TokenId id) const = 0;
  /// One more than the largest known id.
  virtual int vocabulary() const = 0;
  virtual bool known(TokenId id) const = 0;
  virtual std::vector<TokenId> special_ids() const = 0;

  /// All bytes in order, invalid UTF-8 as U+FFFD.
  std::string decode(std::span<const TokenId> ids, bool keep_special = false) const;
};

/// Bytes to valid UTF-8 as they come: holds back an incomplete character, and puts U+FFFD for each
/// maximal invalid part (Unicode's recommended practice), so that the pieces together equal
/// `sanitize` of the whole.
class Utf8Stream {
public:
  std::string feed(std::string_view bytes);
  std::string finish(); ///< An incomplete character becomes U+FFFD.

private:
  std::string held_;
};
std::string sanitize_utf8(std::string_view bytes);

/// Compares two vocabularies by content. Padding (ids only one side has) is welcome; an id that
/// means different tokens is an error naming it.
Result<void> check_same_vocabulary(const Tokenizer& target, const Tokenizer& draft);

} // namespace paceline::models
