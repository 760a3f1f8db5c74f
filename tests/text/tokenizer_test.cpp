#include "tests/support/files.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer/bpe.hpp"
#include "text/tokenizer/pre_tokenizer.hpp"
#include "text/tokenizer/unicode.hpp"

#include <boost/json.hpp>
#include <chrono>
#include <doctest/doctest.h>
#include <fstream>
#include <random>

using namespace paceline;
using namespace paceline::text;
namespace json = boost::json;

namespace {

Result<std::shared_ptr<const Tokenizer>> parse(const std::string& json) {
  return Tokenizer::parse("tokenizer.json", json);
}

std::shared_ptr<const Tokenizer> load(const std::string& folder) {
  auto tokenizer = parse(testing::read_file(folder + "/tokenizer.json"));
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().text());
  return *tokenizer;
}

const json::object& demo_json() {
  static const json::object object =
      json::parse(testing::read_file(testing::demo("target") + "/tokenizer.json")).as_object();
  return object;
}

Result<std::shared_ptr<const Tokenizer>> load_json(const json::object& object) {
  return parse(json::serialize(object));
}

/// The text of an error for a tokenizer.json in which `change` was made.
template <class Change>
Error error_after(Change change) {
  json::object object = demo_json();
  change(object);
  const auto tokenizer = load_json(object);
  REQUIRE(!tokenizer);
  CHECK(tokenizer.error().text().find('\n') == std::string::npos);
  CHECK(tokenizer.error().message.find("tokenizer.json") != std::string::npos);
  CHECK(!tokenizer.error().hint.empty());
  return tokenizer.error();
}

} // namespace

TEST_CASE("invalid UTF-8 is encoded as the replacement character is") {
  const auto tokenizer = load(testing::demo("target"));
  CHECK(tokenizer->encode("a\xFF\xC3") == tokenizer->encode("a\xEF\xBF\xBD\xEF\xBF\xBD"));
}

TEST_CASE("special tokens are known by name and left out of decoded text") {
  const auto tokenizer = load(testing::demo("target"));
  CHECK(tokenizer->vocabulary() == 4096);
  CHECK(tokenizer->special_ids() == std::vector<TokenId>{0});
  CHECK(tokenizer->piece(0) == "<|endoftext|>");
  CHECK(tokenizer->bytes(0) == "");
  CHECK(tokenizer->bytes(0, true) == "<|endoftext|>");
  CHECK(tokenizer->piece(348) == "\xC4\xA0"
                                 "def");
  CHECK(tokenizer->bytes(348) == " def");
  const std::vector<TokenId> ids = tokenizer->encode("a<|endoftext|>b");
  CHECK(tokenizer->decode(ids) == "ab");
  CHECK(tokenizer->decode(ids, true) == "a<|endoftext|>b");
  for (const TokenId id : {-1, 4096, 1 << 30}) {
    CHECK(!tokenizer->known(id));
    CHECK(tokenizer->bytes(id, true) == "");
    CHECK(tokenizer->piece(id) == "");
  }
}

TEST_CASE(
    "characters later than the libraries' tables are numbers, words and capitals all the same") {
  CHECK(is_numeric(0x10D43));
  CHECK(is_numeric(0x11DE9));
  CHECK_FALSE(is_numeric(0x10D4A));
  CHECK(is_word(0x10D4A));
  CHECK(is_word(0x897));
  CHECK_FALSE(is_word(0x1FAE8));
  CHECK(lower_case("A\ua7cb\U00010d65\u1c89") == "a\u0264\U00010d85\u1c8a");
}

TEST_CASE("a text falls into an expression's matches and what lies between them") {
  const auto pieces = [](const std::string& expression, std::string_view text) {
    const json::value part{{"type", "Split"},
                           {"pattern", {{"Regex", expression}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
    const auto splitter = PreTokenizer::read("test", &part);
    REQUIRE_MESSAGE(splitter, splitter.error().text());
    paceline::text::Pieces in;
    in.text.characters = text;
    splitter->apply(in);
    std::vector<std::string> out;
    for (const Span& span : in.spans)
      out.emplace_back(span.of(text));
    return out;
  };
  using Pieces = std::vector<std::string>;
  CHECK(pieces("b+", "abbcb") == Pieces{"a", "bb", "c", "b"});
  CHECK(pieces("b", "bb") == Pieces{"b", "b"});
  CHECK(pieces("b", "xyz") == Pieces{"xyz"});
  CHECK(pieces("b", "").empty());
  CHECK(pieces(R"(\d)", "a\u0662\u0663") == Pieces{"a", "\u0662", "\u0663"});
  CHECK(pieces(R"([\s]+)", "a\u3000 b\u180e") == Pieces{"a", "\u3000 ", "b\u180e"});
  CHECK(pieces(R"(\h|\u4e2D)", "gf\u4e2d") == Pieces{"g", "f", "\u4e2d"});
  CHECK(pieces("(?i:s)", "a\u017fb") == Pieces{"a", "\u017f", "b"});
  CHECK(pieces("b$", "ab\nb") == Pieces{"a", "b", "\n", "b"});
  CHECK(pieces(R"(\w+)", "a\u0301_\u24b6-b") == Pieces{"a\u0301_\u24b6", "-", "b"});
  CHECK(pieces(R"(\p{Han}+)", "\u4e2d\u3001\u4e2d") == Pieces{"\u4e2d", "\u3001", "\u4e2d"});
  // Later than the tables of Debian 12's PCRE2: an emoji, a letter, a digit, a mark, a Han
  // character.
  CHECK(pieces(R"(\p{S}+)", "a \U0001fae8\u2427b") == Pieces{"a ", "\U0001fae8\u2427", "b"});
  CHECK(pieces(R"([^\s\p{L}\p{N}]+)", "\ua7cb\U0001fae8\U00010d40\u0897") ==
        Pieces{"\ua7cb", "\U0001fae8", "\U00010d40", "\u0897"});
  CHECK(pieces(R"(\P{Lu}+|\w)", "\ua7cb\U00010d40") == Pieces{"\ua7cb", "\U00010d40"});
  CHECK(pieces(R"(\p{Han}+)", "a\U00031350\u4e2d\U0001fae8") ==
        Pieces{"a", "\U00031350\u4e2d", "\U0001fae8"});
  // A range has no later character, whatever older one is like it.
  CHECK(pieces("[\U00010400-\U0001044f]+", "a\U00010d75\U00010428") ==
        Pieces{"a\U00010d75", "\U00010428"});
  // More than the machine's stack holds.
  std::string run;
  for (int i = 0; i < 500'000; ++i)
    run += "ab";
  CHECK(pieces("(?:a|b)+", "x" + run + "y") == Pieces{"x", run, "y"});
}

TEST_CASE("both ways of merging give what merging one pair at a time gives") {
  Bpe bpe;
  for (int i = 0; i < 256; ++i)
    bpe.byte_tokens[std::size_t(i)] = i;
  std::mt19937 random(5);
  for (TokenId token = 256; token < 900; ++token)
    bpe.merges.try_emplace(
        Bpe::pair(random() % 2 ? TokenId('a' + random() % 4) : TokenId(random() % unsigned(token)),
                  random() % 2 ? TokenId('a' + random() % 4) : TokenId(random() % unsigned(token))),
        Bpe::Merge{std::uint32_t(token), token});
  Bpe::Scratch scratch;
  for (int round = 0; round < 500; ++round) {
    std::vector<TokenId> expected(1 + random() % 120);
    std::string word;
    for (TokenId& id : expected)
      word += char(id = TokenId('a' + random() % 4));
    for (;;) { // the definition
      std::size_t at = 0;
      Bpe::Merge best{~0u, 0};
      for (std::size_t i = 0; i + 1 < expected.size(); ++i) {
        const auto merge = bpe.merges.find(Bpe::pair(expected[i], expected[i + 1]));
        if (merge != bpe.merges.end() && merge->second.rank < best.rank) {
          best = merge->second;
          at = i;
        }
      }
      if (best.rank == ~0u)
        break;
      expected[at] = best.token;
      expected.erase(expected.begin() + std::ptrdiff_t(at) + 1);
    }
    std::vector<TokenId> ids;
    bpe.encode(word, scratch, ids);
    CHECK(ids == expected);
  }
}

TEST_CASE("words and runs of a megabyte are encoded and give themselves back") {
  const auto tokenizer = load(testing::demo("target"));
  std::mt19937 random(1);
  std::string word(1'000'000, ' ');
  for (char& c : word)
    c = "etaoinshrdlu"[random() % 12];
  for (const std::string& text : {word, std::string(1'000'000, ' '), std::string(1'000'000, '\n'),
                                  std::string(1'000'000, '-')}) {
    const auto ids = tokenizer->encode(text);
    CHECK(ids.size() < text.size());
    CHECK(tokenizer->decode(ids) == text);
  }
}

TEST_CASE("vocabularies are compared by content, and padding is welcome") {
  const auto target = load(testing::demo("target"));
  CHECK(check_same_vocabulary(*target, *load(testing::demo("draft"))));

  json::object padded = demo_json();
  padded["added_tokens"].as_array().push_back(
      {{"id", 4100}, {"content", "<|pad|>"}, {"special", true}, {"normalized", false}});
  const auto longer = load_json(padded).value();
  CHECK(check_same_vocabulary(*target, *longer));
  CHECK(check_same_vocabulary(*longer, *target));

  json::object changed = demo_json();
  json::object& vocab = changed["model"].as_object()["vocab"].as_object();
  std::swap(vocab["\xC4\xA0of"], vocab["\xC4\xA0to"]);
  const auto other = load_json(changed).value();
  const auto refused = check_same_vocabulary(*target, *other);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::invalid_argument);
  CHECK(refused.error().message.find("id 344 is '\xC4\xA0of'") != std::string::npos);
}

TEST_CASE("a tokenizer that asks for what is not known is refused by name") {
  const auto refused = [](auto change, const std::string& name) {
    const Error error = error_after(change);
    CHECK(error.code == ErrorCode::unsupported);
    CHECK_MESSAGE(error.message.find(name) != std::string::npos, error.text());
  };
  const auto typed = [](const char* type) { return json::object{{"type", type}}; };
  refused([](auto& j) { j["model"].as_object()["type"] = "Unigram"; }, "Unigram");
  refused([](auto& j) { j["model"].as_object()["type"] = "WordPiece"; }, "WordPiece");
  refused([](auto& j) { j["model"].as_object()["dropout"] = 0.1; }, "dropout");
  refused([](auto& j) { j["model"].as_object()["end_of_word_suffix"] = "</w>"; }, "end_of_word");
  refused([&](auto& j) { j["normalizer"] = typed("StripAccents"); }, "StripAccents");
  refused([&](auto& j) { j["pre_tokenizer"] = typed("BertPreTokenizer"); }, "BertPreTokenizer");
  refused([&](auto& j) { j["post_processor"] = typed("RobertaProcessing"); }, "RobertaProcessing");
  refused([&](auto& j) { j["decoder"] = typed("WordPiece"); }, "WordPiece");
  refused([&](auto& j) { j["decoder"] = nullptr; }, "without decoder");
  refused(
      [](auto& j) {
        j["pre_tokenizer"].as_object()["pretokenizers"].as_array()[0].as_object()["behavior"] =
            "Shuffled";
      },
      "Shuffled");
  for (const char* expression : {"(unclosed", "[", R"([^\W]x)", R"(x\b)", "[^a[b]]+", "[a&&b]",
                                 "x*", "(?m:.)", "x{2}+", "x{,3}y", R"(\xE9)", R"((x)\1)"})
    refused(
        [&](auto& j) {
          j["pre_tokenizer"].as_object()["pretokenizers"].as_array()[0].as_object()["pattern"] =
              json::object{{"Regex", expression}};
        },
        expression);
}

TEST_CASE("a damaged tokenizer.json is an error that names what is wrong") {
  const auto corrupt = [](auto change, const std::string& name) {
    const Error error = error_after(change);
    CHECK(error.code == ErrorCode::corrupt);
    CHECK_MESSAGE(error.message.find(name) != std::string::npos, error.text());
  };
  const auto model = [](json::object& j) -> json::object& { return j["model"].as_object(); };
  corrupt([](auto& j) { j.erase("model"); }, "no model");
  corrupt([&](auto& j) { model(j)["vocab"] = json::object{}; }, "vocab");
  corrupt([&](auto& j) { model(j)["vocab"].as_object()["x-y"] = -1; }, "x-y");
  corrupt([&](auto& j) { model(j)["vocab"].as_object()["x-y"] = 1e9; }, "x-y");
  corrupt([&](auto& j) { model(j)["vocab"].as_object()["x-y"] = 300; }, "same id 300");
  corrupt([&](auto& j) { model(j)["merges"] = 3; }, "merges");
  corrupt([&](auto& j) { model(j)["merges"].as_array()[7] = "a"; }, "merge 7");
  corrupt([&](auto& j) { model(j)["merges"].as_array()[7] = "a qqqq"; }, "qqqq");
  corrupt([](auto& j) { j["added_tokens"] = 1; }, "added_tokens");
  corrupt([](auto& j) { j["added_tokens"].as_array()[0] = 1; }, "added token");
  corrupt([](auto& j) { j["added_tokens"].as_array()[0].as_object()["content"] = ""; },
          "added token");
  corrupt([](auto& j) { j["added_tokens"].as_array()[0].as_object()["id"] = 17; }, "<|endoftext|>");
}

TEST_CASE("a tokenizer.json cut short anywhere is an error, never a crash") {
  const std::string text = testing::read_file(testing::demo("target") + "/tokenizer.json");
  for (std::size_t size = 0; size < text.size(); size += 1 + text.size() / 40) {
    const auto tokenizer = parse(text.substr(0, size));
    REQUIRE(!tokenizer);
    CHECK(tokenizer.error().code == ErrorCode::corrupt);
  }
  CHECK(!parse(std::string(100'000, '[')));
}

TEST_CASE("a tokenizer.json with any bytes changed is read or refused, never more") {
  json::object small = demo_json();
  json::object& model = small["model"].as_object();
  json::object vocab;
  for (const auto& [piece, id] : model["vocab"].as_object())
    if (id.as_int64() < 300)
      vocab[piece] = id;
  model["vocab"] = vocab;
  model["merges"].as_array().resize(300 - 257);
  small["normalizer"] = json::object{{"type", "NFC"}};
  const std::string whole = json::serialize(small);
  std::mt19937 random(17);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = whole;
    for (unsigned i = 0; i <= random() % 2; ++i)
      damaged[random() % damaged.size()] =
          random() % 3 ? "{}[]\\\",:09-etn+*(?"[random() % 18] : char(random());
    const auto tokenizer = parse(damaged);
    refused += !tokenizer;
    if (tokenizer)
      (*tokenizer)
          ->decode((*tokenizer)->encode("def f(x):\n    return 'caf\u0065\u0301' + str(x)"));
  }
  CHECK(refused > 300);
  CHECK(refused < 1500);
}

TEST_CASE("a token's name is its text, its special name, or the bytes that are no characters") {
  const auto tokenizer = load(std::string(PACELINE_DEMO_MODELS) + "/target");
  std::string names;
  for (const TokenId id : tokenizer->encode("a\u00e9\xF0\x9F\x98\x80<|endoftext|>", false))
    names += tokenizer->name(id) + " ";
  CHECK(names ==
        "a bytes:\\xc3 bytes:\\xa9 bytes:\\xf0 bytes:\\x9f bytes:\\x98 bytes:\\x80 <|endoftext|> ");
  CHECK(tokenizer->name(1'000'000) == "token_id:1000000");
}
