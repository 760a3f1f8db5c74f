// Implements Utf8Stream and the functions that use it (Unicode 15, section 3.9, "U+FFFD
// substitution of maximal subparts").
#include "text/utf8.hpp"

#include <cstdint>

namespace paceline::text {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

struct Lead {
  int length = 0;      ///< Bytes of the whole character; 0: no character begins with this byte.
  unsigned low = 0x80; ///< Range of the second byte (Unicode 15, table 3-7).
  unsigned high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80)
    return {1};
  if (byte < 0xC2 || byte > 0xF4)
    return {0};
  if (byte < 0xE0)
    return {2};
  if (byte < 0xF0)
    return {3, byte == 0xE0 ? 0xA0u : 0x80u, byte == 0xED ? 0x9Fu : 0xBFu};
  return {4, byte == 0xF0 ? 0x90u : 0x80u, byte == 0xF4 ? 0x8Fu : 0xBFu};
}

struct Start {
  /// Bytes of a character, or of the longest beginning of one that stands here.
  std::size_t bytes = 0;
  bool whole = false;
  bool may_grow = false; ///< The text ends before this is decided.
};

Start first_part(std::string_view text) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.length == 0)
    return {1, false, false};
  for (std::size_t i = 1; i < std::size_t(lead.length); ++i) {
    if (i == text.size())
      return {i, false, true};
    const unsigned byte = static_cast<unsigned char>(text[i]);
    if (byte < (i == 1 ? lead.low : 0x80u) || byte > (i == 1 ? lead.high : 0xBFu))
      return {i, false, false};
  }
  return {std::size_t(lead.length), true, false};
}

/// Appends the decided part of `text` to `out`; returns the rest.
std::string_view convert(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const Start part = first_part(text);
    if (part.may_grow)
      return text;
    out += part.whole ? text.substr(0, part.bytes) : replacement;
    text.remove_prefix(part.bytes);
  }
  return text;
}

} // namespace

std::string Utf8Stream::feed(std::string_view bytes) {
  std::string out;
  if (held_.empty()) {
    held_ = convert(bytes, out);
    return out;
  }
  held_ += bytes;
  held_ = std::string(convert(held_, out));
  return out;
}

std::string Utf8Stream::finish() {
  const bool incomplete = !held_.empty();
  held_.clear();
  return incomplete ? std::string(replacement) : std::string();
}

std::string sanitize_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (!convert(bytes, out).empty())
    out += replacement;
  return out;
}

} // namespace paceline::text
