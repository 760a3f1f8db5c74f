// A text on its way to the model, and the pieces that it falls into.
#pragma once

#include "text/tokenizer/regex.hpp"

#include <string>
#include <vector>

namespace paceline::text {

/// Text between two added tokens, as normalisers change it.
struct Text {
  std::string characters; ///< Valid UTF-8.
  /// The first character stands for the first one of the whole input.
  bool at_start = true;
};

/// The same as pre-tokenizers cut it; what lies between pieces is dropped.
struct Pieces {
  Text text;
  std::vector<Span> spans; ///< In order, none empty.
  /// At whose end a new text is written where a step changes the text, and the pieces in it.
  std::string next_characters;
  std::vector<Span> next_spans;
};

} // namespace paceline::text
