// Every kind of tokenizer against the reference implementation: tools/reference/tokenizer_check.py
// draws the texts and writes what is expected of them.
#include "models/tokenizer.hpp"
#include "tests/models/support.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <random>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

json::object base_of(const std::string& name) {
  return name == "bytes"
             ? json::parse(test::read_file(test::demo("target") + "/tokenizer.json")).as_object()
             : test::data("tokenizers/" + name + ".json").as_object();
}

void change_model(json::object& model, const json::object& changes) {
  json::value& vocab = model["vocab"];
  for (const auto& [key, value] : changes) {
    if (key == "extra") {
      for (const json::value& token : value.as_array())
        if (vocab.is_object())
          vocab.as_object()[token.as_string()] = vocab.as_object().size();
        else
          vocab.as_array().push_back(json::array{token, 0.0});
    } else if (key == "without") {
      for (const json::value& token : value.as_array())
        vocab.as_object().erase(token.as_string());
    } else if (key == "merges_as_pairs") {
      for (json::value& merge : model["merges"].as_array()) {
        const std::string text(merge.as_string());
        const auto space = text.find(' ');
        merge = json::array{text.substr(0, space), text.substr(space + 1)};
      }
    } else {
      model[key] = value;
    }
  }
}

/// tokenizer.json of a kind, put together as tools/reference/tokenizer_kinds.py does it.
json::object build(const json::object& kind) {
  json::object out = base_of(std::string(kind.at("base").as_string()));
  const json::value own = out["normalizer"];
  for (const auto& [key, value] : kind.at("parts").as_object()) {
    if (key == "model") {
      change_model(out["model"].as_object(), value.as_object());
    } else if (key == "normalizer" && value.is_array()) {
      json::array steps = value.as_array();
      for (json::value& step : steps)
        if (step == "charsmap")
          step = own;
      out[key] = json::object{{"type", "Sequence"}, {"normalizers", steps}};
    } else {
      out[key] = value;
    }
  }
  return out;
}

std::shared_ptr<const Tokenizer> load(const json::object& description) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", json::serialize(description));
  const auto tokenizer = Tokenizer::load(folder.path());
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().text());
  return *tokenizer;
}

template <class Values>
std::string fnv(const Values& values) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const auto value : values)
    hash = (hash ^ std::make_unsigned_t<decltype(value)>(value)) * 0x100000001B3u;
  return fmt::format("{:08x}", hash & 0xFFFFFFFF);
}

/// As a stream shows it; each piece must be whole characters.
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

/// Calls test(tokenizer, kind, texts) for each kind.
template <class Test>
void for_each_kind(Test test) {
  const json::value all = test::data("tokenizers/kinds.json");
  for (const json::value& value : all.at("kinds").as_array()) {
    const json::object& kind = value.as_object();
    CAPTURE(std::string(kind.at("name").as_string()));
    json::array texts = all.at("texts").as_array();
    const json::array& own = kind.at("texts").as_array();
    texts.insert(texts.end(), own.begin(), own.end());
    test(*load(build(kind)), kind, texts);
  }
}

} // namespace

TEST_CASE("ids and decoded text are the reference implementation's, for every kind of tokenizer") {
  int kinds = 0;
  for_each_kind(
      [&](const Tokenizer& tokenizer, const json::object& kind, const json::array& texts) {
        ++kinds;
        const std::string_view ids_of = kind.at("ids").as_string();
        const std::string_view decoded_of = kind.at("decoded").as_string();
        REQUIRE(ids_of.size() == 8 * texts.size());
        for (std::size_t i = 0; i < texts.size(); ++i) {
          CAPTURE(json::serialize(texts[i]));
          const std::string text(texts[i].as_string());
          const auto ids = tokenizer.encode(text);
          const std::string decoded = tokenizer.decode(ids);
          CHECK(fnv(ids) == ids_of.substr(8 * i, 8));
          CHECK(decode_in_stream(tokenizer, ids, false) == decoded);
          const bool has_markup = text.find('<') != text.npos || text.find("\u2581") != text.npos;
          if (!has_markup) // of bytes that are no text the two show different replacements
            CHECK(fnv(decoded) == decoded_of.substr(8 * i, 8));
          if (!has_markup && kind.at("lossless").as_bool())
            CHECK(decoded == text);
        }
      });
  CHECK(kinds >= 24);
}

TEST_CASE("any ids decode to valid text, the same at once and as a stream") {
  std::mt19937 random(3);
  for_each_kind([&](const Tokenizer& tokenizer, const json::object&, const json::array&) {
    for (int round = 0; round < 60; ++round) {
      std::vector<TokenId> ids(random() % 20);
      for (TokenId& id : ids)
        id = TokenId(random() % (random() % 2 ? 260 : 4200));
      const bool keep_special = random() % 2;
      const std::string whole = tokenizer.decode(ids, keep_special);
      CHECK(sanitize_utf8(whole) == whole);
      CHECK(decode_in_stream(tokenizer, ids, keep_special) == whole);
    }
  });
}
