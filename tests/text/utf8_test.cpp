#include "text/utf8.hpp"

#include <doctest/doctest.h>
#include <random>
#include <string>

using namespace paceline::text;

namespace {

const std::string bad = "\xEF\xBF\xBD"; // U+FFFD

/// Feeds `text` in random cuts.
std::string in_pieces(const std::string& text, std::mt19937& random) {
  Utf8Stream stream;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = std::min<std::size_t>(random() % 4, text.size() - at);
    const std::string piece = stream.feed(std::string_view(text).substr(at, count));
    CHECK(sanitize_utf8(piece) == piece); // whole characters only
    out += piece;
    at += count;
  }
  return out + stream.finish();
}

} // namespace

TEST_CASE("each maximal part of an invalid sequence becomes one replacement character") {
  CHECK(sanitize_utf8("plain") == "plain");
  CHECK(sanitize_utf8("caf\xC3\xA9 \xF0\x9F\x98\x80") == "caf\xC3\xA9 \xF0\x9F\x98\x80");
  // Unicode 15, table 3-8.
  CHECK(sanitize_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") ==
        bad + bad + bad + bad + bad + bad + bad + bad + "A");
  // Table 3-9: surrogates.
  CHECK(sanitize_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") ==
        bad + bad + bad + bad + bad + bad + bad + bad + "A");
  // Table 3-10: beyond U+10FFFF.
  CHECK(sanitize_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") ==
        bad + bad + bad + bad + bad + "A" + bad + bad + "B");
  // Table 3-11: truncated sequences.
  CHECK(sanitize_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == bad + bad + bad + bad + "A");
  CHECK(sanitize_utf8("\xF4\x8F\xBF\xBF") == "\xF4\x8F\xBF\xBF");
  CHECK(sanitize_utf8("x\xE2\x82") == "x" + bad);
}

TEST_CASE("a stream of bytes gives what the whole gives, wherever it is cut") {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    const std::size_t size = random() % 24;
    while (text.size() < size) {
      static const std::string parts[] = {"a", "\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x98\x80"};
      if (random() % 2)
        text += parts[random() % 4];
      else
        text += char(random() % 3 ? 0x80 + random() % 0x80 : random());
    }
    CHECK(in_pieces(text, random) == sanitize_utf8(text));
  }
}

TEST_CASE("a character is shown as soon as its last byte is there, and no sooner") {
  Utf8Stream stream;
  CHECK(stream.feed("\xF0\x9F") == "");
  CHECK(stream.feed("\x98") == "");
  CHECK(stream.feed("\x80!") == "\xF0\x9F\x98\x80!");
  CHECK(stream.finish() == "");
  CHECK(stream.feed("\xE2\x82") == "");
  CHECK(stream.feed("A") == bad + "A");
}
