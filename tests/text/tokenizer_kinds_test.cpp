// Every kind of tokenizer against the reference implementation: tools/reference/tokenizer_check.py
// draws the texts and writes what is expected of them.
#include "tests/text/kinds.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <random>

using namespace paceline;
using namespace paceline::text;

namespace {

template <class Values>
std::string fnv(const Values& values) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const auto value : values)
    hash = (hash ^ std::make_unsigned_t<decltype(value)>(value)) * 0x100000001B3u;
  return fmt::format("{:08x}", hash & 0xFFFFFFFF);
}

/// Decodes as a stream shows it; each piece must be whole characters.
std::string decode_in_stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                             bool keep_special) {
  Detokenizer detokenizer(tokenizer, keep_special);
  Utf8Stream stream;
  std::string out;
  for (const TokenId id : ids) {
    const std::string shown = stream.feed(detokenizer.feed(id));
    CHECK(sanitize_utf8(shown) == shown);
    out += shown;
  }
  return out + stream.finish();
}

} // namespace

TEST_CASE("ids and decoded text are the reference implementation's, for every kind of tokenizer") {
  const auto kinds = test::tokenizer_kinds();
  CHECK(kinds.size() >= 24);
  for (const test::Kind& kind : kinds) {
    CAPTURE(kind.name);
    REQUIRE(kind.ids.size() == 8 * kind.texts.size());
    for (std::size_t i = 0; i < kind.texts.size(); ++i) {
      const std::string& text = kind.texts[i];
      CAPTURE(text);
      const auto ids = kind.tokenizer->encode(text);
      const std::string decoded = kind.tokenizer->decode(ids);
      CHECK(fnv(ids) == kind.ids.substr(8 * i, 8));
      CHECK(decode_in_stream(*kind.tokenizer, ids, false) == decoded);
      const bool has_markup = text.find('<') != text.npos || text.find("\u2581") != text.npos;
      if (!has_markup) // of bytes that are no text the two show different replacements
        CHECK(fnv(decoded) == kind.decoded.substr(8 * i, 8));
      if (!has_markup && kind.lossless)
        CHECK(decoded == text);
    }
  }
}

TEST_CASE("any ids decode to valid text, the same at once and as a stream") {
  std::mt19937 random(3);
  for (const test::Kind& kind : test::tokenizer_kinds())
    for (int round = 0; round < 60; ++round) {
      CAPTURE(kind.name);
      std::vector<TokenId> ids(random() % 20);
      for (TokenId& id : ids)
        id = TokenId(random() % (random() % 2 ? 260 : 4200));
      const bool keep_special = random() % 2;
      const std::string whole = kind.tokenizer->decode(ids, keep_special);
      CHECK(sanitize_utf8(whole) == whole);
      CHECK(decode_in_stream(*kind.tokenizer, ids, keep_special) == whole);
    }
}
