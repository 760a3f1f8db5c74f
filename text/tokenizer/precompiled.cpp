#include "text/tokenizer/precompiled.hpp"

#include "text/tokenizer/unicode.hpp"
#include "text/utf8.hpp"

#include <cstring>

namespace paceline::text {
namespace {

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('='))
    text.remove_suffix(1);
  std::string out;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = digits.find(text[i]);
    if (digit == digits.npos)
      return {};
    bits = bits << 6 | std::uint32_t(digit);
    if (i % 4 != 0)
      out += char(bits >> (6 - 2 * (i % 4)) & 0xFF);
  }
  return out;
}

// A unit of the trie holds a label, whether a value follows, and the offset of its children; or it
// is a value.
constexpr std::uint32_t value_flag = 1u << 31;
std::uint32_t label(std::uint32_t unit) {
  return unit & (value_flag | 0xFF);
}
bool has_value(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
std::uint32_t offset(std::uint32_t unit) {
  return unit >> 10 << ((unit & 1u << 9) >> 6);
}

} // namespace

Result<Precompiled> Precompiled::read(Part& part) {
  const auto blob = from_base64(part.text("precompiled_charsmap"));
  auto map = blob ? parse(*blob) : std::nullopt;
  if (!map)
    return part.wrong("has no map that can be read");
  for (unsigned c = 0; c < 128; ++c)
    map->plain[c] = !find(*map, std::string(1, char(c)));
  Precompiled out;
  out.map_ = std::make_shared<const Map>(std::move(*map));
  return out;
}

/// Parses a map: the size of the trie in bytes (little-endian), the trie, the pool.
std::optional<Precompiled::Map> Precompiled::parse(std::string_view blob) {
  std::uint32_t size = 0;
  if (blob.size() < sizeof size)
    return {};
  std::memcpy(&size, blob.data(), sizeof size);
  blob.remove_prefix(sizeof size);
  if (size == 0 || size % 4 != 0 || size > blob.size())
    return {};
  Map map;
  map.units.resize(size / 4);
  std::memcpy(map.units.data(), blob.data(), size);
  map.pool = blob.substr(size);
  if (sanitize_utf8(map.pool) != map.pool)
    return {};
  return map;
}

/// Returns what replaces `chunk`: the entry of its shortest prefix that the map has.
std::optional<std::string_view> Precompiled::find(const Map& map, std::string_view chunk) {
  std::uint32_t at = offset(map.units[0]);
  for (const char c : chunk) {
    const std::uint32_t byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= map.units.size() || label(map.units[at]) != byte)
      return {};
    const std::uint32_t unit = map.units[at];
    at ^= offset(unit);
    if (at >= map.units.size())
      return {};
    if (has_value(unit)) {
      const std::uint32_t begin = map.units[at] & ~value_flag;
      if (begin >= map.pool.size() || (map.pool[begin] & 0xC0) == 0x80)
        return {}; // no character begins there: the map is damaged
      const std::string_view rest = std::string_view(map.pool).substr(begin);
      return rest.substr(0, rest.find('\0'));
    }
  }
  return {};
}

void Precompiled::apply(Text& text) const {
  constexpr std::size_t whole_bytes_max = 5; // bytes of the longest grapheme looked up whole
  const Map& map = *map_;
  std::string_view rest = text.characters;
  std::string out;
  out.reserve(rest.size());
  const auto is_plain = [&](std::size_t i) {
    const auto c = static_cast<unsigned char>(rest[i]);
    return c < 128 && map.plain[c];
  };
  while (!rest.empty()) {
    // No two characters of ASCII form one grapheme, except CR and LF.
    if (is_plain(0) && rest[0] != '\r' && (rest.size() == 1 || is_plain(1))) {
      out += rest[0];
      rest.remove_prefix(1);
      continue;
    }
    std::string_view grapheme = rest.substr(0, first_grapheme(rest));
    rest.remove_prefix(grapheme.size());
    const auto whole = grapheme.size() <= whole_bytes_max ? find(map, grapheme) : std::nullopt;
    if (whole) {
      out += *whole;
      continue;
    }
    while (!grapheme.empty()) {
      const std::string_view character = grapheme.substr(0, first_character(grapheme).size);
      out += find(map, character).value_or(character);
      grapheme.remove_prefix(character.size());
    }
  }
  text.characters = std::move(out);
}

} // namespace paceline::text
