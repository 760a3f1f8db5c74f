// Splits a template's source into tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::text::jinja {

struct Token {
  enum class Kind {
    text,        ///< Text outside of tags, from which white space around tags was removed.
    begin_block, ///< {%
    end_block,   ///< %}
    begin_print, ///< {{
    end_print,   ///< }}
    name,
    string, ///< `text` is the string's value.
    integer,
    real,
    symbol,
    end,
  };
  Kind kind = Kind::end;
  std::string text;
  int line = 1;
};

/// Returns a template's tokens. White space is treated as with trim_blocks and lstrip_blocks, which
/// `transformers` sets. Comments are dropped. Throws Failure.
std::vector<Token> tokens_of(std::string_view source);

} // namespace paceline::text::jinja
