// A text on its way to the model, and the pieces into which it is cut.
#pragma once

#include "text/tokenizer/regex.hpp"

#include <string>
#include <vector>

namespace paceline::text {

/// The text between two added tokens, as normalisers change it.
struct Text {
  std::string characters; ///< Valid UTF-8.
  /// The first character stands for the first one of the whole input.
  bool at_start = true;
};

/// The text as pre-tokenizers cut it; what lies between pieces is dropped.
struct Pieces {
  Text text;
  std::vector<Span> spans; ///< Pieces in order, none empty.
  /// Reused memory: steps that change the text, or the pieces, write the new ones here.
  std::string next_characters;
  std::vector<Span> next_spans;
};

} // namespace paceline::text
