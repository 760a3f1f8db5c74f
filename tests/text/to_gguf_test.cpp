// A tokenizer.json in the words of GGUF files makes the same tokens, and what these have no word
// for is refused by name.
#include "text/tokenizer/to_gguf.hpp"

#include "tests/support/files.hpp"
#include "text/tokenizer/gguf.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::text;
namespace json = boost::json;

namespace {

json::object demo_root() {
  return json::parse(testing::read_file(testing::demo("target") + "/tokenizer.json")).as_object();
}

/// SentencePiece's BPE over a few letters, as Llama 2's and Gemma's tokenizer.json have it: with a
/// blank before a text, or without.
json::object pieces(bool prefixed) {
  json::array normalizers{
      json::object{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}};
  if (prefixed)
    normalizers.insert(normalizers.begin(),
                       json::object{{"type", "Prepend"}, {"prepend", "\u2581"}});
  json::object vocab{{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte)
    vocab[std::string("<0x") + "0123456789ABCDEF"[byte / 16] + "0123456789ABCDEF"[byte % 16] +
          ">"] = 3 + byte;
  const char* const words[] = {"\u2581a", "bc", "abc", "\u2581\u2581", "\u2581", "a", "b", "c"};
  for (int i = 0; i < 8; ++i)
    vocab[words[i]] = 259 + i;
  const auto special = [](int id, const char* content, bool is_special) {
    return json::object{
        {"id", id}, {"content", content}, {"special", is_special}, {"normalized", false}};
  };
  return {
      {"added_tokens",
       {special(0, "<unk>", true), special(1, "<s>", true), special(2, "</s>", true),
        special(267, "<tool>", false)}},
      {"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
      {"pre_tokenizer", nullptr},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {json::object{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
          json::object{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {json::object{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
          json::object{{"type", "ByteFallback"}}, json::object{{"type", "Fuse"}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", std::move(vocab)},
        {"merges", {"\u2581 a", "b c", "a bc", "\u2581 \u2581"}}}}};
}

GgufTokenizer translated(const json::object& root, int vocabulary) {
  auto out = to_gguf("x/tokenizer.json", root, vocabulary);
  REQUIRE_MESSAGE(out, out.error().text());
  return std::move(*out);
}

/// What reads a file with this tokenizer.
std::shared_ptr<const Tokenizer> read_back(const GgufTokenizer& from) {
  GgufVocabulary file;
  file.model = from.model;
  file.pre = from.pre;
  file.tokens = {from.tokens.begin(), from.tokens.end()};
  file.types = {from.types.begin(), from.types.end()};
  file.scores = from.scores;
  file.merges = {from.merges.begin(), from.merges.end()};
  file.begin = from.begin;
  file.end = from.end;
  file.add_begin = from.add_begin;
  file.add_end = from.add_end;
  file.add_space_prefix = from.add_space_prefix;
  auto out = make_tokenizer("x.gguf", file);
  REQUIRE_MESSAGE(out, out.error().text());
  return *out;
}

Error refused(const json::object& root, int vocabulary = 5000) {
  const auto out = to_gguf("x/tokenizer.json", root, vocabulary);
  REQUIRE(!out);
  CHECK(out.error().message.find("x/tokenizer.json: ") == 0);
  CHECK_FALSE(out.error().hint.empty());
  return out.error();
}

bool says(const Error& error, std::string_view text) {
  const bool found = error.text().find(text) != std::string::npos;
  CHECK_MESSAGE(found, error.text(), " lacks: ", text);
  return found;
}

} // namespace

TEST_CASE("a byte-level BPE makes the same tokens out of a GGUF's words") {
  const json::object root = demo_root();
  const auto original = Tokenizer::parse("demo", json::serialize(root)).value();
  const GgufTokenizer own = translated(root, 4100);
  CHECK(own.model == "gpt2");
  CHECK(own.pre == "dbrx"); // Llama 3's expression without its whole words
  CHECK(own.tokens.size() == 4100);
  CHECK(own.types[0] == GgufVocabulary::control);
  CHECK(own.types[4099] == GgufVocabulary::unused);
  const auto read = read_back(own);
  for (const char* text : {"def f(x):\n    return 12345", "don't  stop\r\n\n \xc3\xa9 \xe6\x97\xa5",
                           "<|endoftext|>a<|endoftext|> ", "  \t "}) {
    CAPTURE(text);
    CHECK(read->encode(text) == original->encode(text));
    CHECK(read->decode(original->encode(text)) == original->decode(original->encode(text)));
  }
  json::object whole = root;
  whole["model"].as_object()["ignore_merges"] = true;
  CHECK(translated(whole, 4096).pre == "llama-bpe");
}

TEST_CASE("SentencePiece's merges become scores that merge in the same order") {
  for (const bool prefixed : {true, false}) {
    CAPTURE(prefixed);
    const json::object root = pieces(prefixed);
    const auto original = Tokenizer::parse("pieces", json::serialize(root)).value();
    const GgufTokenizer own = translated(root, 270);
    CHECK(own.model == "llama");
    CHECK(own.add_begin);
    CHECK(own.begin == 1);
    CHECK(own.add_space_prefix == prefixed);
    CHECK(own.types[0] == GgufVocabulary::unknown);
    CHECK(own.types[3] == GgufVocabulary::byte);
    CHECK(own.types[259] == GgufVocabulary::normal);
    CHECK(own.types[267] == GgufVocabulary::user_defined);
    const auto read = read_back(own);
    for (const char* text : {"abc", "a abc  bca", "x\xc3\xa9", " <tool>a", "", "</s>bc"}) {
      CAPTURE(text);
      CHECK(read->encode(text) == original->encode(text));
    }
  }
}

TEST_CASE("merges in another order than their tokens stay merges, as in Gemma 4's files") {
  json::object root = pieces(false);
  root["model"].as_object()["merges"] =
      json::array{"\u2581 a", "\u2581 \u2581", "b c", "a bc"}; // b c before its id is reached
  const auto original = Tokenizer::parse("pieces", json::serialize(root)).value();
  const GgufTokenizer own = translated(root, 270);
  CHECK(own.model == "gemma4");
  CHECK(own.scores.empty());
  CHECK(own.merges.front() == "\u2581 a");
  const auto read = read_back(own);
  for (const char* text : {"abc", "a abc  bca", "x\xc3\xa9\n\nabc\n", " <tool>a", ""}) {
    CAPTURE(text);
    CHECK(read->encode(text) == original->encode(text));
  }
  json::object across = root;
  across["model"].as_object()["vocab"].as_object()["c\n"] = 268;
  across["model"].as_object()["merges"].as_array().push_back("c \n");
  says(refused(across), "the merge of c and");
  root["post_processor"] = nullptr;
  says(refused(root), "without a token before every text");
}

TEST_CASE("blanks that newer files mark while they cut are the same") {
  json::object root = pieces(true);
  const GgufTokenizer own = translated(root, 270);
  root["normalizer"] = nullptr;
  root["pre_tokenizer"] = json::object{{"type", "Metaspace"},
                                       {"replacement", "\u2581"},
                                       {"prepend_scheme", "first"},
                                       {"split", false}};
  const GgufTokenizer newer = translated(root, 270);
  CHECK(newer.add_space_prefix);
  CHECK(newer.scores == own.scores);
  root["pre_tokenizer"].as_object()["split"] = true;
  says(refused(root), "cuts at blanks");
}

TEST_CASE("the tokens around a text are those that its template has, whatever it calls them") {
  json::object root = pieces(true);
  json::object& around = root["post_processor"].as_object();
  const auto item = [](const char* name) {
    return json::object{{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
  };
  const json::object text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}, {"SpecialToken", nullptr}};
  around["single"] = json::array{item("first"), text, item("last")};
  around["special_tokens"] = {{"first", {{"ids", {1}}}}, {"last", {{"ids", {2}}}}};
  const auto original = Tokenizer::parse("pieces", json::serialize(root)).value();
  const GgufTokenizer own = translated(root, 268);
  CHECK(own.begin == 1);
  CHECK(own.end == 2);
  CHECK(read_back(own)->encode("abc") == original->encode("abc"));
  around["special_tokens"] = {{"first", {{"ids", {1, 267}}}}, {"last", {{"ids", {2}}}}};
  says(refused(root), "several tokens around a text");
}

TEST_CASE("what GGUF files have no word for is refused by name") {
  const auto with = [](const char* part, const json::value& value) {
    json::object root = demo_root();
    root[part] = value;
    return root;
  };
  says(refused(with("normalizer", json::object{{"type", "Lowercase"}})), "normalizer Lowercase");
  says(refused(with("pre_tokenizer", json::object{{"type", "Whitespace"}})),
       "pre_tokenizer Whitespace");
  says(refused(with("post_processor", json::object{{"type", "BertProcessing"}})),
       "post_processor of type BertProcessing");
  json::object other = demo_root();
  other["pre_tokenizer"].at("pretokenizers").as_array().front().at("pattern") = {
      {"Regex", "[0-7]"}};
  says(refused(other), "the way in which texts are cut, [0-7]");
  says(refused(demo_root(), 4000), "there are 4096 tokens, and the embedding has 4000 rows");
  json::object out_of_order = pieces(true);
  out_of_order["model"].as_object()["merges"] =
      json::array{"\u2581 a", "\u2581 \u2581", "b c", "a bc"};
  says(refused(out_of_order), "the merge of b and c");
  json::object no_bytes = pieces(true);
  no_bytes["model"].as_object()["byte_fallback"] = false;
  says(refused(no_bytes), "this kind of BPE");
}
