// What tokenizer.json describes, read and checked; tokenizer.cpp puts it to work.
#pragma once

#include "models/added_tokens.hpp"
#include "models/bpe.hpp"
#include "models/split.hpp"
#include "paceline/error.hpp"
#include "paceline/request.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

struct TokenizerParts {
  struct Token {
    std::string piece; ///< As the vocabulary spells it.
    std::string bytes; ///< As it reads in the text.
    bool known = false;
    bool special = false;
  };
  std::vector<Token> tokens; ///< By id; ids the file leaves out are not known.
  Bpe bpe;
  bool nfc = false;             ///< Normalise to NFC before splitting.
  std::vector<Splitter> splits; ///< One after the other, each within the pieces of the last.
  AddedTokens raw;              ///< Matched in the text as it came,
  AddedTokens normalized;       ///< and these in the normalised text.
};

/// `folder`/tokenizer.json. What it asks for and is not known here is refused by name.
Result<TokenizerParts> read_tokenizer(const std::string& folder);

/// The bytes of a piece in which each byte is written as a printable character (GPT-2's
/// byte-level alphabet); a piece with other characters stands for itself.
std::string bytes_of_piece(std::string_view piece);

} // namespace paceline::models
