// The kinds of tokenizers that tools/reference compares, as the tests put them together.
#pragma once

#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::text::test {

struct Kind {
  std::string name;
  std::shared_ptr<const Tokenizer> tokenizer;
  bool lossless = false;          ///< Decoding gives back any text without markup.
  std::vector<std::string> texts; ///< Drawn for all kinds, and for this one;
  std::string ids;                ///< of their ids eight digits of a hash each,
  std::string decoded;            ///< and of the decoded text.
};

/// Returns those of tests/text/data/tokenizers/kinds.json. Throws where it cannot be read.
std::vector<Kind> tokenizer_kinds();

} // namespace paceline::text::test
