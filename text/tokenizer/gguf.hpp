// Translates the tokenizers of GGUF files into the words of tokenizer.json.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text {

/// The contents of a file below "tokenizer.ggml."; the texts point into the file.
struct GgufVocabulary {
  /// The numbers are those in files; any other number means that no text becomes the token.
  enum TokenType : std::int64_t { normal = 1, unknown, control, user_defined, unused, byte };

  std::string model; ///< "gpt2", "llama" or "gemma4".
  std::string pre;   ///< Way in which gpt2's texts are split; empty: the file does not say.
  std::vector<std::string_view> tokens; ///< Texts by id.
  std::vector<float> scores;            ///< [tokens], or empty: all 0.
  std::vector<std::int64_t> types;      ///< [tokens], or empty: all normal.
  std::vector<std::string_view> merges; ///< "a b", the first ones first.
  std::optional<std::int64_t> begin;    ///< Ids of the tokens that may be put around a text.
  std::optional<std::int64_t> end;
  std::optional<bool> add_begin; ///< Whether they are put there.
  std::optional<bool> add_end;
  std::optional<bool> add_space_prefix;
  bool strips_right = false; ///< Phi 3's special tokens include white space behind them.

  TokenType type(std::size_t id) const { return id < types.size() ? TokenType(types[id]) : normal; }
};

/// Makes a file's tokenizer. path: the file's, for messages. A kind of tokenizer, or a way to split
/// texts, that is not known is refused by name.
Result<std::shared_ptr<const Tokenizer>> make_tokenizer(const std::string& path,
                                                        const GgufVocabulary& vocabulary);

} // namespace paceline::text
