// Shades that show what a part of a text is: who wrote it (accepted draft tokens, the target's own,
// or lookahead that came true), or what it is for.
#pragma once

#include "apps/console/token_cutter.hpp"
#include "paceline/event.hpp"

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// How a part of a text looks. The terminal's code is empty where it looks as all text does.
struct Shade {
  std::string_view code{};

  constexpr Shade() = default;
  constexpr explicit Shade(std::string_view terminal_code) : code(terminal_code) {}
  /// Converts implicitly, since most shades say who wrote a token.
  Shade(TokenSource source); // NOLINT(google-explicit-constructor)
  bool operator==(const Shade&) const = default;
};

inline constexpr Shade thought_shade{"2"}; ///< Dim: what the model thinks before it answers.
inline constexpr Shade call_shade{"1;33"}; ///< Bold yellow: a call of a function.

/// Cuts streamed text at the ends of its tokens.
class Shader {
public:
  struct Part {
    std::string text;
    TokenSource source = TokenSource::target;
  };

  /// Adds the next token's bytes, as they are inside a text.
  void token(std::string_view bytes, TokenSource source);
  /// Returns the parts of the text that comes next. A character that several tokens share goes to
  /// the last, and text that no token announced is the target's.
  std::vector<Part> cut(std::string_view text);

private:
  TokenCutter cutter_;
  std::deque<TokenSource> sources_; ///< Those of the tokens that may still have text.
  std::size_t first_ = 0;           ///< Number of the first of these tokens.
};

/// Returns text in its shade, with a code of the terminal's before and behind it, and no code
/// around line ends.
std::string shaded(std::string_view text, Shade shade);
/// Returns the meaning of the shades, in one line.
std::string shade_legend();

} // namespace paceline::apps
