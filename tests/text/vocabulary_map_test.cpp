#include "text/vocabulary_map.hpp"

#include "tests/support/files.hpp"
#include "tests/support/word_tokenizer.hpp"
#include "tests/text/kinds.hpp"
#include "text/limits.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::text;
using testing::WordTokenizer;
using Tokens = std::vector<TokenId>;

namespace {

Tokens reading(const VocabularyMap& map, int position, TokenId token) {
  Tokens ids;
  map.read(position, token, ids);
  CHECK(map.count(position, token) == int(ids.size()));
  return ids;
}

} // namespace

TEST_CASE("a token is said by its bytes, and read by itself where the draft lacks it") {
  const WordTokenizer target({"a", "b", "ab", "c", "xa"});
  const WordTokenizer draft({"b", "d", "a", "c", "\xEF\xBF\xBD"});
  const VocabularyMap map(target, draft);
  CHECK(map.says() == Tokens{2, 0, -1, 3, -1});
  CHECK(map.shared() == 3);
  CHECK(map.known() == 5);
  CHECK(map.share() == doctest::Approx(0.6));
  CHECK(reading(map, 3, 2) == Tokens{2, 0}); // a b
  CHECK(reading(map, 3, 4) == Tokens{2});    // there is no x
  for (const TokenId unknown : {-1, 5, 1 << 30})
    CHECK(reading(map, 3, unknown) == Tokens{4});
}

TEST_CASE("a text begins for the draft as its own tokenizer has it") {
  const WordTokenizer target({"<s>", "a", "b"}, 0);
  const WordTokenizer draft({"a", "<bos>", "b"}, 1);
  const VocabularyMap map(target, draft);
  CHECK(reading(map, 0, 0) == Tokens{1}); // one in place of the other
  CHECK(reading(map, 0, 1) == Tokens{1, 0});
  CHECK(reading(map, 1, 1) == Tokens{0});
  const VocabularyMap without(target, WordTokenizer({"a", "b"}));
  CHECK(!reading(without, 0, 0).empty()); // what is fed last has logits
}

TEST_CASE("a special token is the same as a special one only") {
  const WordTokenizer target({"<s>", "a"}, 0);
  const VocabularyMap map(target, WordTokenizer({"<s>", "a"}));
  CHECK(map.says() == Tokens{-1, 1});
}

TEST_CASE("of a token that is long in the draft's vocabulary the end is read") {
  const WordTokenizer target({"a", std::string(100, 'a') + "b"});
  const VocabularyMap map(target, WordTokenizer({"b", "a"}));
  const Tokens end = reading(map, 1, 1);
  CHECK(int(end.size()) == limits::vocabulary_reading_max);
  CHECK(end.back() == 0);
}

TEST_CASE("a draft that has hardly a token in common with the target is refused with the figure") {
  const WordTokenizer target({"a", "b", "c", "d"});
  const auto refused = map_vocabularies(target, WordTokenizer({"d", "e"}));
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::invalid_argument);
  CHECK(refused.error().message.find("25 % of the target's tokens (1 of 4)") != std::string::npos);
  CHECK(map_vocabularies(target, WordTokenizer({"d", "c"})).value() != nullptr);
  CHECK(map_vocabularies(target, target).value() == nullptr); // nothing is to be mapped
}

TEST_CASE(
    "between any two kinds of tokenizers what is said has the same bytes, as has what is read") {
  for (const test::Kind& a : test::tokenizer_kinds())
    for (const test::Kind& b : test::tokenizer_kinds()) {
      CAPTURE(a.name);
      CAPTURE(b.name);
      const Tokenizer& target = *a.tokenizer;
      const Tokenizer& draft = *b.tokenizer;
      const VocabularyMap map(target, draft);
      int wrong = 0;
      int said = 0;
      for (TokenId id = 0; id < target.vocabulary(); ++id) {
        if (const TokenId same = map.says()[std::size_t(id)]; same >= 0) {
          wrong += target.bytes(id, true) != draft.bytes(same, true);
          wrong += reading(map, 1, id) != Tokens{same};
          ++said;
        }
        wrong += map.count(1, id) < 1;
      }
      CHECK(wrong == 0);
      CHECK(said <= map.shared());
    }
}
