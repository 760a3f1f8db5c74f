// What a GGUF file says of its tokenizer makes the tokens that the checkpoint's own tokenizer.json
// makes.
#include "tests/support/files.hpp"
#include "tests/support/says.hpp"
#include "text/tokenizer/gguf.hpp"

#include <boost/json.hpp>
#include <cmath>
#include <deque>
#include <doctest/doctest.h>
#include <numeric>

using namespace paceline;
using namespace paceline::text;
namespace json = boost::json;

namespace {

using Ids = std::vector<TokenId>;
using testing::says;

/// Keeps the texts that a vocabulary points at.
struct Words {
  std::deque<std::string> kept;
  GgufVocabulary vocabulary;

  std::string_view keep(std::string text) { return kept.emplace_back(std::move(text)); }
  void add(std::string text, float score = 0, std::int64_t type = GgufVocabulary::normal) {
    vocabulary.tokens.push_back(keep(std::move(text)));
    vocabulary.scores.push_back(score);
    vocabulary.types.push_back(type);
  }
};

/// The demo's tokenizer.json as a file has it.
Words demo_words() {
  const json::value root =
      json::parse(testing::read_file(testing::demo("target") + "/tokenizer.json"));
  const json::value& model = root.at("model");
  Words out;
  out.vocabulary.model = "gpt2";
  out.vocabulary.pre = "dbrx"; // Llama 3's expression, and nothing else of it.
  std::vector<std::string> pieces(model.at("vocab").as_object().size());
  for (const auto& [piece, id] : model.at("vocab").as_object())
    pieces[id.to_number<std::size_t>()] = piece;
  for (std::string& piece : pieces)
    out.add(std::move(piece));
  for (const json::value& token : root.at("added_tokens").as_array())
    out.vocabulary.types[token.at("id").to_number<std::size_t>()] = GgufVocabulary::control;
  for (const json::value& merge : model.at("merges").as_array())
    out.vocabulary.merges.push_back(out.keep(merge.is_string()
                                                 ? std::string(merge.as_string())
                                                 : std::string(merge.at(0).as_string()) + " " +
                                                       std::string(merge.at(1).as_string())));
  return out;
}

/// SentencePiece's BPE over a few letters; 0 to 2 are special, 3 and 4 bytes of "é".
Words pieces() {
  Words out;
  out.vocabulary.model = "llama";
  out.vocabulary.begin = 1;
  out.vocabulary.end = 2;
  out.add("<unk>", 0, GgufVocabulary::unknown);
  out.add("<s>", 0, GgufVocabulary::control);
  out.add("</s>", 0, GgufVocabulary::control);
  out.add("<0xC3>", 0, GgufVocabulary::byte);
  out.add("<0xA9>", 0, GgufVocabulary::byte);
  out.add("\u2581", -9);                           // 5
  out.add("a", -8);                                // 6
  out.add("b", -8);                                // 7
  out.add("c", -8);                                // 8
  out.add("ab", -2);                               // 9
  out.add("bc", -1);                               // 10
  out.add("abc", -5);                              // 11
  out.add("\u2581a", -3);                          // 12
  out.add("aa", -4);                               // 13
  out.add("[x]", 0, GgufVocabulary::user_defined); // 14
  out.add("ca", 0, GgufVocabulary::unused);        // 15
  return out;
}

std::shared_ptr<const Tokenizer> tokenizer(const GgufVocabulary& vocabulary) {
  auto made = make_tokenizer("x.gguf", vocabulary);
  REQUIRE_MESSAGE(made, made.error().text());
  return *made;
}

Error refused(const GgufVocabulary& vocabulary) {
  const auto made = make_tokenizer("x.gguf", vocabulary);
  REQUIRE(!made);
  CHECK(made.error().message.find("x.gguf: ") == 0);
  return made.error();
}

} // namespace

TEST_CASE("bytes are encoded and read as by the tokenizer.json that a file was made from") {
  const auto own = tokenizer(demo_words().vocabulary);
  const auto name = testing::demo("target") + "/tokenizer.json";
  const auto original = Tokenizer::parse(name, testing::read_file(name)).value();
  CHECK(own->vocabulary() == original->vocabulary());
  CHECK(own->special_ids() == original->special_ids());
  for (const char* text :
       {"", "def f(x):\n    return 12345", "don't  stop\r\n\n é 日本 \xf0\x9f\x99\x82",
        "<|endoftext|>a<|endoftext|> ", "  \t "}) {
    CAPTURE(text);
    CHECK(own->encode(text) == original->encode(text));
    CHECK(own->encode_as({true, false, {}}, text) == original->encode_as({true, false, {}}, text));
    CHECK(own->decode(own->encode(text)) == original->decode(original->encode(text)));
  }
}

TEST_CASE("every known way to cut a text keeps all of it") {
  Words words = demo_words();
  words.vocabulary.begin = 0;
  words.vocabulary.add_begin = false;
  const std::string text =
      "I'm 12345 words,\n\n  \"quoted\"; été WORLD's 北京 ３ $5+=|~` \u10d0 end ";
  for (const char* pre : {"", "default", "gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2", "qwen35",
                          "gpt-4o", "tekken", "seed-coder", "bailingmoe", "deepseek-llm",
                          "deepseek-coder", "deepseek-v3", "falcon"}) {
    CAPTURE(pre);
    words.vocabulary.pre = pre;
    const auto own = tokenizer(words.vocabulary);
    CHECK(own->decode(own->encode(text)) == text);
  }
}

TEST_CASE("DeepSeek LLM's words have the letters that it lists, and no later ones") {
  Words words = demo_words();
  words.vocabulary.pre = "deepseek-llm";
  const auto own = tokenizer(words.vocabulary);
  const auto begins_apart = [&](const std::string& letter) {
    const Ids blank = own->encode(" ");
    const Ids ids = own->encode("  " + letter);
    return std::equal(blank.begin(), blank.end(), ids.begin()) &&
           own->bytes(ids[blank.size()]).starts_with(" ");
  };
  CHECK(begins_apart("a"));
  CHECK(begins_apart("\U00010428"));
  CHECK_FALSE(begins_apart("\U00010d75")); // a small letter since Unicode 16
  CHECK_FALSE(begins_apart("\u05d0"));     // a letter without a case
}

TEST_CASE("pieces merge by their scores, the highest first") {
  const auto own = tokenizer(pieces().vocabulary);
  CHECK(own->encode("abc") == Ids{1, 12, 10});           // ▁ a bc: bc goes before ▁a.
  CHECK(own->encode("cab", false) == Ids{5, 8, 9});      // No text becomes what is unused.
  CHECK(own->encode("baaa", false) == Ids{5, 7, 13, 6}); // Of equals the leftmost.
  CHECK(own->encode("a é", false) == Ids{12, 5, 3, 4});
  CHECK(own->encode("ca[x]a", false) == Ids{5, 8, 6, 14, 12});
  CHECK(own->encode("</s>", false) == Ids{2});
  CHECK(own->decode(own->encode(" a bé")) == " a bé");
  CHECK(own->special_ids() == Ids{0, 1, 2});
}

TEST_CASE("what is put around a text is what the file says") {
  Words words = pieces();
  CHECK(tokenizer(words.vocabulary)->encode("c") == Ids{1, 5, 8});
  words.vocabulary.add_space_prefix = false;
  words.vocabulary.add_end = true;
  CHECK(tokenizer(words.vocabulary)->encode("c") == Ids{1, 8, 2});
  CHECK(tokenizer(words.vocabulary)->decode(Ids{5, 8}) == " c");
  words.vocabulary.add_begin = false;
  CHECK(tokenizer(words.vocabulary)->encode("c") == Ids{8, 2});
  words.vocabulary.end = 99;
  CHECK(says(refused(words.vocabulary), "tokenizer.ggml.eos_token_id"));
}

TEST_CASE("Phi 3's special tokens take the white space behind them") {
  Words words = pieces();
  words.vocabulary.strips_right = true;
  CHECK(tokenizer(words.vocabulary)->encode("</s>\n c<s> c", false) == Ids{2, 5, 8, 1, 5, 5, 8});
}

TEST_CASE("characters merge by a list of merges where the file has one") {
  Words words = pieces();
  words.vocabulary.model = "gemma4";
  words.vocabulary.merges = {"a b", "ab c", "\u2581 a"};
  CHECK(tokenizer(words.vocabulary)->encode("abc a", false) == Ids{11, 12});
}

TEST_CASE("a tokenizer that is not known, or is damaged, is refused by name") {
  Words words = pieces();
  words.vocabulary.model = "rwkv";
  CHECK(says(refused(words.vocabulary), "tokenizer.ggml.model rwkv is not known"));
  words = demo_words();
  words.vocabulary.pre = "of-tomorrow";
  CHECK(says(refused(words.vocabulary), "tokenizer.ggml.pre of-tomorrow is not known"));
  words = demo_words();
  words.vocabulary.merges.clear();
  CHECK(says(refused(words.vocabulary), "tokenizer.ggml.merges is missing"));
  words = demo_words();
  words.vocabulary.merges.push_back("Ġ nowhere");
  CHECK(says(refused(words.vocabulary), "nowhere"));
  words = pieces();
  words.vocabulary.scores.pop_back();
  CHECK(says(refused(words.vocabulary), "tokenizer.ggml.scores has 15 scores for 16 tokens"));
  words = pieces();
  words.vocabulary.scores[7] = std::nanf("");
  CHECK(says(refused(words.vocabulary), "tokenizer.ggml.scores has a score that is no number"));
  words = pieces();
  words.vocabulary.types.pop_back();
  CHECK(says(refused(words.vocabulary), "tokenizer.ggml.token_type has 15 types for 16 tokens"));
  words = pieces();
  words.add("\xff");
  CHECK(says(refused(words.vocabulary), "token 16 is no UTF-8"));
}
