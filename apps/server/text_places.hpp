// The places of tokens in a text.
#pragma once

#include "text/utf8.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::apps::serve {

/// Counts characters (code points), as clients index a text. Tokens that are parts of one character
/// share its place.
class TextPlaces {
public:
  /// Returns the place of a token that appends these bytes to the text.
  std::size_t next(std::string_view bytes);
  /// Starts again, behind `text`.
  void go_behind(std::string_view text);

private:
  text::Utf8Stream stream_;
  std::size_t characters_ = 0; ///< Number of whole characters.
  bool inside_ = false;        ///< Whether an unfinished character follows them.
};

} // namespace paceline::apps::serve
