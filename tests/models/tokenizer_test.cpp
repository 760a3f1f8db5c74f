#include "models/bpe.hpp"
#include "models/split.hpp"
#include "models/tokenizer.hpp"
#include "tests/models/support.hpp"

#include <boost/json.hpp>
#include <chrono>
#include <doctest/doctest.h>
#include <fstream>
#include <random>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

std::shared_ptr<const Tokenizer> load(const std::string& folder) {
  auto tokenizer = Tokenizer::load(folder);
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().text());
  return *tokenizer;
}

const json::object& demo_json() {
  static const json::object object =
      json::parse(test::read_file(test::demo("target") + "/tokenizer.json")).as_object();
  return object;
}

/// As tools/reference/tokenizer_golden.py puts a variant's parts in place of the demo's.
json::object variant(const json::object& replace) {
  json::object out = demo_json();
  for (const auto& [key, value] : replace) {
    if (key != "model") {
      out[key] = value;
      continue;
    }
    json::object& model = out["model"].as_object();
    const json::object& changes = value.as_object();
    if (changes.contains("ignore_merges"))
      model["ignore_merges"] = changes.at("ignore_merges");
    if (const json::value* extra = changes.if_contains("extra"))
      for (const auto& [token, id] : extra->as_object())
        model["vocab"].as_object()[token] = id;
    if (changes.contains("merges_as_pairs"))
      for (json::value& merge : model["merges"].as_array()) {
        const std::string_view text = merge.as_string();
        const auto space = text.find(' ');
        merge = json::array{text.substr(0, space), text.substr(space + 1)};
      }
  }
  return out;
}

Result<std::shared_ptr<const Tokenizer>> load_json(const json::object& object) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", json::serialize(object));
  return Tokenizer::load(folder.path());
}

std::string fnv(const std::vector<TokenId>& ids) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const TokenId id : ids)
    hash = (hash ^ std::uint32_t(id)) * 0x100000001B3u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

std::string decode_in_stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Utf8Stream stream;
  std::string out;
  for (const TokenId id : ids)
    out += stream.feed(tokenizer.bytes(id, true));
  return out + stream.finish();
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

TEST_CASE("ids are those of the reference implementation, for every option and kind of text") {
  const json::value golden = test::data("tokenizer_golden.json");
  const json::array& texts = golden.at("texts").as_array();
  for (const json::value& entry : golden.at("variants").as_array()) {
    CAPTURE(std::string(entry.at("name").as_string()));
    const auto tokenizer = load_json(variant(entry.at("replace").as_object()));
    REQUIRE_MESSAGE(tokenizer, tokenizer.error().text());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(json::serialize(texts[i]));
      const auto ids = (*tokenizer)->encode(std::string_view(texts[i].as_string()));
      if (const json::value* whole = entry.as_object().if_contains("ids"))
        CHECK(ids == json::value_to<std::vector<TokenId>>(whole->as_array()[i]));
      const json::array& expected = entry.at("hashes").as_array()[i].as_array();
      CHECK(std::int64_t(ids.size()) == expected[0].as_int64());
      CHECK(fnv(ids) == std::string_view(expected[1].as_string()));
    }
  }
}

TEST_CASE("decoding gives the text back, at once and as a stream") {
  const json::value golden = test::data("tokenizer_golden.json");
  const auto tokenizer = load(test::demo("target"));
  for (const json::value& entry : golden.at("texts").as_array()) {
    const std::string text(entry.as_string());
    const auto ids = tokenizer->encode(text);
    CHECK(tokenizer->decode(ids, true) == text);
    CHECK(decode_in_stream(*tokenizer, ids) == text);
  }
}

TEST_CASE("any ids decode to valid text, the same at once and as a stream") {
  const auto tokenizer = load(test::demo("target"));
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> ids(random() % 20);
    for (TokenId& id : ids)
      id = TokenId(random() % 2 ? random() % 257 : random() % 4200);
    const std::string whole = tokenizer->decode(ids, true);
    CHECK(sanitize_utf8(whole) == whole);
    CHECK(decode_in_stream(*tokenizer, ids) == whole);
  }
}

TEST_CASE("invalid UTF-8 is encoded as the replacement character is") {
  const auto tokenizer = load(test::demo("target"));
  CHECK(tokenizer->encode("a\xFF\xC3") == tokenizer->encode("a\xEF\xBF\xBD\xEF\xBF\xBD"));
}

TEST_CASE("special tokens are known by name and left out of decoded text") {
  const auto tokenizer = load(test::demo("target"));
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

TEST_CASE("a text falls into an expression's matches and what lies between them") {
  const auto pieces = [](const std::string& expression, std::string_view text) {
    const auto splitter = Splitter::compile(expression, "test");
    REQUIRE_MESSAGE(splitter, splitter.error().text());
    std::vector<std::string_view> out;
    splitter->split(text, out);
    return std::vector<std::string>(out.begin(), out.end());
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
  const auto tokenizer = load(test::demo("target"));
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
  const auto target = load(test::demo("target"));
  CHECK(check_same_vocabulary(*target, *load(test::demo("draft"))));

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
  refused([](auto& j) { j["model"].as_object()["byte_fallback"] = true; }, "byte_fallback");
  refused([](auto& j) { j["model"].as_object()["dropout"] = 0.1; }, "dropout");
  refused([](auto& j) { j["model"].as_object()["end_of_word_suffix"] = "</w>"; }, "end_of_word");
  refused([&](auto& j) { j["normalizer"] = typed("Lowercase"); }, "Lowercase");
  refused([&](auto& j) { j["pre_tokenizer"] = typed("Metaspace"); }, "Metaspace");
  refused([&](auto& j) { j["pre_tokenizer"] = nullptr; }, "pre_tokenizer");
  refused([&](auto& j) { j["post_processor"] = typed("TemplateProcessing"); },
          "TemplateProcessing");
  refused([&](auto& j) { j["decoder"] = typed("Metaspace"); }, "Metaspace");
  refused([](auto& j) { j["added_tokens"].as_array()[0].as_object()["lstrip"] = true; }, "lstrip");
  refused(
      [](auto& j) {
        j["pre_tokenizer"].as_object()["pretokenizers"].as_array()[0].as_object()["behavior"] =
            "Removed";
      },
      "Split");
  for (const char* expression :
       {"(unclosed", "[", R"(\w+|x)", R"(x\b)", "[^a[b]]+", "[a&&b]", "x*"})
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
  const std::string text = test::read_file(test::demo("target") + "/tokenizer.json");
  const test::TemporaryFolder folder;
  for (std::size_t size = 0; size < text.size(); size += 1 + text.size() / 40) {
    folder.write("tokenizer.json", text.substr(0, size));
    const auto tokenizer = Tokenizer::load(folder.path());
    REQUIRE(!tokenizer);
    CHECK(tokenizer.error().code == ErrorCode::corrupt);
  }
  folder.write("tokenizer.json", std::string(100'000, '['));
  CHECK(!Tokenizer::load(folder.path()));
  const auto absent = Tokenizer::load(folder.path() + "/nowhere");
  REQUIRE(!absent);
  CHECK(absent.error().code == ErrorCode::not_found);
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
  const test::TemporaryFolder folder;
  std::mt19937 random(17);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = whole;
    for (unsigned i = 0; i <= random() % 2; ++i)
      damaged[random() % damaged.size()] =
          random() % 3 ? "{}[]\\\",:09-etn+*(?"[random() % 18] : char(random());
    folder.write("tokenizer.json", damaged);
    const auto tokenizer = Tokenizer::load(folder.path());
    refused += !tokenizer;
    if (tokenizer)
      (*tokenizer)
          ->decode((*tokenizer)->encode("def f(x):\n    return 'caf\u0065\u0301' + str(x)"));
  }
  CHECK(refused > 300);
  CHECK(refused < 1500);
}
