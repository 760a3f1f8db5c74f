// SentencePiece's compiled normalisation rules.
#pragma once

#include "paceline/error.hpp"
#include "text/tokenizer/part.hpp"
#include "text/tokenizer/pieces.hpp"

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text {

/// A map from short texts to their replacements: a double-array trie (of the darts-clone library)
/// whose values are offsets into a pool of strings that end with a zero byte. It is applied as in
/// the reference implementation: to a grapheme cluster of less than six bytes as a whole (even if
/// only its beginning is in the map), else to each character. Immutable; copies share.
class Precompiled {
public:
  /// Reads a part with "precompiled_charsmap", in base64.
  static Result<Precompiled> read(Part& part);

  void apply(Text& text) const;

private:
  struct Map {
    std::vector<std::uint32_t> units; ///< The trie.
    std::string pool;
    std::bitset<128> plain; ///< ASCII characters that the map does not change.
  };
  static std::optional<Map> parse(std::string_view blob);
  static std::optional<std::string_view> find(const Map& map, std::string_view chunk);

  std::shared_ptr<const Map> map_;
};

} // namespace paceline::text
