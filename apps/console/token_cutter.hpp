// Streamed text, cut at the ends of its tokens.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// Says which token wrote which part of a text. Text may lag behind tokens (a character or a stop
/// string that is incomplete), so the lengths of tokens wait here.
class TokenCutter {
public:
  struct Part {
    std::string text;
    /// Number of the token, from 0; text that none announced has the number of the next one.
    std::size_t token = 0;
  };

  /// Adds the next token, which appends so many bytes to the text.
  void token(std::size_t bytes);
  /// Returns the parts of the text that comes next. A character that several tokens share goes to
  /// the last.
  std::vector<Part> cut(std::string_view text);

private:
  std::deque<std::size_t> waiting_; ///< Bytes that are to come of each token.
  std::size_t first_ = 0;           ///< Number of the first that waits.
};

} // namespace paceline::apps
