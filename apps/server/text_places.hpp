// Where the tokens of a text stand in it.
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
  /// The place of a token that puts these bytes into the text, behind all before it.
  std::size_t next(std::string_view bytes);
  /// What comes next stands behind `text`.
  void go_behind(std::string_view text);

private:
  text::Utf8Stream stream_;
  std::size_t characters_ = 0; ///< That are whole.
  bool inside_ = false;        ///< One that is not whole yet stands behind them.
};

} // namespace paceline::apps::serve
