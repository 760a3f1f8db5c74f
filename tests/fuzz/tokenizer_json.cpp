// Any tokenizer.json is read or refused; what was read encodes and decodes any text.
#include "tests/fuzz/fuzz.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

using namespace paceline;
using namespace paceline::text;

namespace {

constexpr std::string_view texts[] = {"", " Hello  world",
                                      "def f(x):\n\treturn x + 1  # caf\u0065\u0301 \u00e9\r\n",
                                      "<s> <x> \u2581\u2581a\u3000\U0001f468\u200d\U0001f469 "
                                      "\u0915\u094d\u0937 \uac01 1234 aaaaaaaaaaaaaaaaaaaa"};

void check(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text);
  for (const bool keep_special : {false, true}) {
    Detokenizer detokenizer(tokenizer, keep_special);
    Utf8Stream stream;
    std::string shown;
    for (const TokenId id : ids)
      shown += stream.feed(detokenizer.feed(id));
    shown += stream.finish();
    testing::require(shown == tokenizer.decode(ids, keep_special), "a stream shows the whole text");
    testing::require(shown == sanitize_utf8(shown), "decoded text is UTF-8");
  }
}

} // namespace

void paceline::testing::fuzz(std::string_view input) {
  const auto tokenizer = Tokenizer::parse("tokenizer.json", input);
  if (!tokenizer)
    return require(!tokenizer.error().message.empty() &&
                       tokenizer.error().text().find('\n') == std::string::npos,
                   "an error is one line");
  for (const std::string_view text : texts)
    check(**tokenizer, text);
}
