// A template's source as tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::text::jinja {

struct Token {
  enum class Kind {
    text,        ///< Outside of tags, white space around them already settled.
    begin_block, ///< {%
    end_block,   ///< %}
    begin_print, ///< {{
    end_print,   ///< }}
    name,
    string, ///< `text` is what it stands for.
    integer,
    real,
    symbol,
    end,
  };
  Kind kind = Kind::end;
  std::string text;
  int line = 1;
};

/// White space as with trim_blocks and lstrip_blocks, which is what `transformers` sets. Comments
/// are gone. Throws Failure.
std::vector<Token> tokens_of(std::string_view source);

} // namespace paceline::text::jinja
