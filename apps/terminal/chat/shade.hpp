// Shades that show who wrote which part of a text: accepted draft tokens, the target's own, or
// lookahead that came true.
#pragma once

#include "paceline/event.hpp"

#include <deque>
#include <string>
#include <string_view>

namespace paceline::apps {

/// Cuts streamed text at the ends of its tokens. Text may lag behind tokens (a character or a stop
/// string that is incomplete), so the lengths of tokens wait here.
class Shader {
public:
  struct Part {
    std::string text;
    TokenSource source = TokenSource::target;
  };

  /// Adds the next token's bytes, as they are inside a text.
  void token(std::string_view bytes, TokenSource source);
  /// Returns the parts of the text that comes next. A character that several tokens share goes to
  /// the last.
  std::deque<Part> cut(std::string_view text);

private:
  struct Length {
    std::size_t bytes;
    TokenSource source;
  };
  std::deque<Length> waiting_;
};

/// Returns text in the shade of its source, with a code of the terminal's before and behind it, and
/// no code around line ends.
std::string shaded(std::string_view text, TokenSource source);
/// Returns the meaning of the shades, in one line.
std::string shade_legend();

} // namespace paceline::apps
