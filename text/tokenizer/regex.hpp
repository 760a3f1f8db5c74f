// Regular expressions of tokenizer.json. They are Oniguruma's, as far as PCRE2 can be made to read
// them alike.
#pragma once

#include "paceline/error.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::text {

/// A part of a text, in bytes.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string_view of(std::string_view text) const { return text.substr(begin, end - begin); }
};

/// A compiled expression. Immutable. Threads: any, each with its own matcher.
class Regex {
public:
  /// Compiles an expression. where: for messages. Refuses one that would mean something else here,
  /// or matches the empty text.
  static Result<Regex> compile(const std::string& pattern, const std::string& where);

private:
  friend class RegexMatcher;
  std::shared_ptr<const void> code_; ///< pcre2_code, compiled
  bool by_property_ = false;         ///< It asks for properties, which PCRE2 has in tables.
};

/// The matches of an expression in one text, from left to right.
class RegexMatcher {
public:
  /// regex, text: must outlive this object. text: valid UTF-8.
  RegexMatcher(const Regex& regex, std::string_view text);
  RegexMatcher(const RegexMatcher&) = delete;
  RegexMatcher& operator=(const RegexMatcher&) = delete;
  ~RegexMatcher();

  /// Returns the next match; none at the end, or if the expression needs more than PCRE2's limits
  /// allow.
  std::optional<Span> next();

private:
  struct State; ///< PCRE2's memory for matching.
  const void* code_;
  std::string_view text_;
  /// The text that is matched in place of the original, with each character of the same size; none:
  /// the original.
  std::optional<std::string> older_;
  std::size_t from_ = 0;
  std::unique_ptr<State> state_;
};

} // namespace paceline::text
