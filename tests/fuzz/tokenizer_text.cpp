// Any text is encoded as known ids, which decode the same at once and as a stream; the first byte
// chooses the kind of tokenizer. Kinds that lose nothing give the text back.
#include "tests/fuzz/fuzz.hpp"
#include "tests/text/kinds.hpp"
#include "text/utf8.hpp"

#include <vector>

using namespace paceline;
using namespace paceline::text;

void paceline::testing::fuzz(std::string_view input) {
  static const std::vector<paceline::text::test::Kind> kinds =
      paceline::text::test::tokenizer_kinds();
  if (input.empty())
    return;
  const paceline::text::test::Kind& kind =
      kinds[static_cast<unsigned char>(input[0]) % kinds.size()];
  const Tokenizer& tokenizer = *kind.tokenizer;
  const std::string text = sanitize_utf8(input.substr(1));
  const auto ids = tokenizer.encode(input.substr(1));
  require(ids == tokenizer.encode(text), "invalid UTF-8 is read as U+FFFD");
  Detokenizer detokenizer(tokenizer);
  Utf8Stream stream;
  std::string shown;
  for (const TokenId id : ids) {
    require(tokenizer.known(id), "encoding gives known ids");
    const std::string piece = stream.feed(detokenizer.feed(id));
    require(piece == sanitize_utf8(piece), "a stream shows whole characters");
    shown += piece;
  }
  shown += stream.finish();
  require(shown == tokenizer.decode(ids), "a stream shows the whole text");
  const bool has_markup = text.find('<') != text.npos || text.find("\u2581") != text.npos;
  require(!kind.lossless || has_markup || shown == text, "nothing is lost");
}
