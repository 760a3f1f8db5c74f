// Who wrote which part of a text: accepted draft tokens, the target's own, lookahead that came
// true.
#pragma once

#include "paceline/event.hpp"

#include <deque>
#include <string>
#include <string_view>

namespace paceline::apps {

/// Cuts streamed text where its tokens end. Text may lag behind tokens (a character or a stop
/// string that is incomplete), so their bytes wait here.
class Shader {
public:
  struct Part {
    std::string text;
    TokenSource source = TokenSource::target;
  };

  /// The next token's bytes, as they are inside a text.
  void token(std::string_view bytes, TokenSource source);
  /// The parts of the text that comes next. A character that several tokens share goes to the last.
  std::deque<Part> cut(std::string_view text);

private:
  struct Length {
    std::size_t bytes;
    TokenSource source;
  };
  std::deque<Length> waiting_;
};

/// Text in the shade of its source: a code of the terminal's before it and one behind it, and
/// neither around line ends.
std::string shaded(std::string_view text, TokenSource source);
/// What the shades mean, in one line.
std::string shade_legend();

} // namespace paceline::apps
