// Translates tokenizer.json into the words of GGUF files: the way back from gguf.hpp.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text {

/// A tokenizer as GGUF files have it below "tokenizer.ggml.".
struct GgufTokenizer {
  std::string model; ///< "gpt2", "llama" or "gemma4".
  std::string pre;   ///< Way in which gpt2's texts are split.
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types; ///< [tokens], of GgufVocabulary::TokenType.
  std::vector<float> scores;       ///< [tokens], of "llama".
  std::vector<std::string> merges; ///< "a b", the first ones first; "llama" has none.
  std::optional<TokenId> begin;    ///< The token that is put before every text.
  std::optional<TokenId> end;      ///< The one that is put behind it.
  bool add_begin = false;
  bool add_end = false;
  bool add_space_prefix = false;

  std::optional<TokenId> find(std::string_view token) const;
};

/// Translates a byte-level BPE that cuts texts in a way that has a name in GGUF files, or
/// SentencePiece's BPE. What such files have no word for is refused by name. Unicode normalisation
/// (NFC) is left out, as their other writers do. path: for messages. vocabulary: rows of the
/// embedding; ids that no token has are unused ones.
Result<GgufTokenizer> to_gguf(const std::string& path, const boost::json::object& root,
                              int vocabulary);

} // namespace paceline::text
