// How the byte-level BPEs of GGUF files cut a text before they merge, by the names that files have
// for it.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace paceline::text {

/// SentencePiece's mark for a blank.
inline constexpr std::string_view sentencepiece_blank = "\u2581";

/// How a kind of byte-level BPE cuts a text: by one expression after the other, each on the pieces
/// of the one before.
struct GgufCut {
  std::initializer_list<const char*> names; ///< Names of this kind in files.
  std::initializer_list<const char*> expressions;
  /// A piece that is a token becomes that token, whatever the merges say.
  bool whole_words = false;
  bool adds_begin = false; ///< Whether a begin token is added if the file does not say.
};

/// The expressions of GPT-2, and of models that take digits apart.
inline constexpr const char* gpt2_cut =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* digit_cut = R"(\p{N})";

/// Return the kind with this name, or one that cuts like this; null: none is known.
const GgufCut* find_cut(std::string_view name);
const GgufCut* find_cut(std::span<const std::string> expressions, bool whole_words);

} // namespace paceline::text
