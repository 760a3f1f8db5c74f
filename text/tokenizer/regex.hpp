// Regular expressions of tokenizer.json: Oniguruma's, as far as PCRE2 can be made to read them
// alike.
#pragma once

#include "paceline/error.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::text {

/// Part of a text, in bytes.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string_view of(std::string_view text) const { return text.substr(begin, end - begin); }
};

/// Immutable. Threads: any, each with its own matcher.
class Regex {
public:
  /// where: for messages. Refused: what would mean something else, or match the empty text.
  static Result<Regex> compile(const std::string& pattern, const std::string& where);

private:
  friend class RegexMatcher;
  std::shared_ptr<const void> code_; ///< pcre2_code, compiled
};

/// The matches of an expression in one text, from left to right.
class RegexMatcher {
public:
  /// Both must outlive this. text: valid UTF-8.
  RegexMatcher(const Regex& regex, std::string_view text);
  ~RegexMatcher();

  /// None at the end, or where the expression needs more than PCRE2's limits allow.
  std::optional<Span> next();

private:
  struct State; ///< What PCRE2 needs for matching.
  const void* code_;
  std::string_view text_;
  std::size_t from_ = 0;
  std::unique_ptr<State> state_;
};

} // namespace paceline::text
