// The tokenizers of GGUF files, put into the words of tokenizer.json.
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

/// What a file says below "tokenizer.ggml."; its texts point into the file.
struct GgufVocabulary {
  /// As files number them; every other number is that of a token which no text becomes.
  enum TokenType : std::int64_t { normal = 1, unknown, control, user_defined, unused, byte };

  std::string model; ///< "gpt2", "llama" or "gemma4".
  std::string pre;   ///< How gpt2's texts fall into pieces; empty: the file does not say.
  std::vector<std::string_view> tokens; ///< By id.
  std::vector<float> scores;            ///< [tokens], or empty: all 0.
  std::vector<std::int64_t> types;      ///< [tokens], or empty: all normal.
  std::vector<std::string_view> merges; ///< "a b", the first ones first.
  std::optional<std::int64_t> begin;    ///< Ids of tokens that may be put around a text,
  std::optional<std::int64_t> end;
  std::optional<bool> add_begin; ///< and whether they are.
  std::optional<bool> add_end;
  std::optional<bool> add_space_prefix;
  bool strips_right = false; ///< Phi 3's special tokens take white space behind them along.

  TokenType type(std::size_t id) const { return id < types.size() ? TokenType(types[id]) : normal; }
};

/// path: of the file, for messages. A kind of tokenizer, or a way to cut texts, that is not known
/// is refused by name.
Result<std::shared_ptr<const Tokenizer>> make_tokenizer(const std::string& path,
                                                        const GgufVocabulary& vocabulary);

} // namespace paceline::text
