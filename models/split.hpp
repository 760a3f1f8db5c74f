// Regular expressions of tokenizer.json, and the pieces a text falls into between their matches.
#pragma once

#include "paceline/error.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Threads: `split` from any.
class Splitter {
public:
  /// where: for messages. Expressions are Oniguruma's, as far as PCRE2 reads them alike.
  static Result<Splitter> compile(const std::string& pattern, const std::string& where);

  /// Every match is a piece, and so is what lies between matches ("Isolated"). Appends to `out`.
  /// text: valid UTF-8. Where the expression needs more than PCRE2's limits allow, the rest of
  /// the text is one piece.
  void split(std::string_view text, std::vector<std::string_view>& out) const;

private:
  Splitter() = default;
  std::shared_ptr<const void> code_; ///< pcre2_code, compiled
};

/// GPT-2's expression, which `ByteLevel` pre-tokenizers use by themselves.
extern const char* const gpt2_expression;

} // namespace paceline::models
