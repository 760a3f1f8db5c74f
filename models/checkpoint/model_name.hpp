// Names of models as the hub and other programs have them: "org/name", "org/name:Q4_K_M".
#pragma once

#include "paceline/error.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

struct ModelName {
  std::string base;    ///< "org/name"; "name" alone for a model of Ollama's library.
  std::string variant; ///< One of several models of that name: "Q4_K_M"; empty: none was named.

  /// Returns "base", or "base:variant".
  std::string text() const { return variant.empty() ? base : base + ":" + variant; }
  /// Whether the base has the form "org/name" that the hub knows.
  bool at_hub() const { return base.find('/') != base.npos; }
};

/// Parses "org/name", "org/name:variant" and "name:variant", each also behind "hf:". All parts
/// begin with a letter or a digit and have no characters but those, '-', '_' and '.': a part is the
/// name of a file in any folder. None: the text has another form.
std::optional<ModelName> parse_model_name(std::string_view text);

/// Returns the name of a GGUF file without its folder, its ending and the number of its part:
/// "name-Q4_K_M" of "a/name-Q4_K_M-00001-of-00002.gguf".
std::string gguf_stem(std::string_view path);

/// Returns the variant that a GGUF file is, by its stem: "Q4_K_M" of "name-q4_k_m". A stem that
/// names no format of weights is the variant itself.
std::string gguf_variant(std::string_view stem);

/// Chooses one of several models of one name. variants: stems of files, or tags. wanted: one of
/// them, or the end of one behind '-', '.' or '_', in any case; empty: the only one, or else
/// "latest" or Q4_K_M, which most programs take. Errors: there is none, or there are several.
Result<std::size_t> choose_variant(const std::string& base,
                                   const std::vector<std::string>& variants,
                                   const std::string& wanted);

/// Returns whether two texts are equal but for the case of ASCII letters.
bool same_but_case(std::string_view a, std::string_view b);

} // namespace paceline::models
