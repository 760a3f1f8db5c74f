// Decodes tokens to text.
#pragma once

#include "paceline/error.hpp"
#include "text/tokenizer/part.hpp"
#include "text/tokenizer/pattern.hpp"

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline::text {

/// Decodes each token by itself, so that a text can be shown while it is made; only at the
/// beginning of a text more has to be known. Immutable. Threads: all const members from any.
class Decoder {
public:
  /// Reads the "decoder" of tokenizer.json. path: for messages.
  static Result<Decoder> read(const std::string& path, const boost::json::value* part);

  /// Returns the bytes of a token, which may be a part of a character. first: it is the first of a
  /// text.
  std::string bytes(std::string_view piece, bool first = false) const;

  /// A character that is left out, up to `count` times, at the beginning of a text.
  struct Strip {
    std::string character;
    int count = 0;
  };
  const Strip& strip() const { return strip_; }

private:
  struct ByteLevel {};
  struct ByteFallback {};
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Metaspace {
    std::string replacement;
    bool prepended; ///< The first token loses its marks, because encoding added one.
  };
  using Step = std::variant<ByteLevel, ByteFallback, Replace, Metaspace>;

  Result<void> read_step(Part& part);
  Result<void> read_strip(Part& part);

  static std::string run(ByteLevel, const std::string& piece, bool first);
  static std::string run(ByteFallback, std::string piece, bool first);
  static std::string run(const Replace& replace, std::string piece, bool first);
  static std::string run(const Metaspace& metaspace, std::string piece, bool first);

  std::vector<Step> steps_;
  Strip strip_;
  bool fused_ = false; ///< Fuse was seen: the steps behind it concern the whole text.
  /// A token may be a part of a character: no further step can look at it.
  bool may_be_bytes_ = false;
};

} // namespace paceline::text
