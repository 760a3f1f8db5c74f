// Log-probabilities name their tokens, and say where these stand in the text.
#include "tests/serve/live_server.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>
#include <set>

using namespace paceline;
using namespace paceline::testing;
namespace json = boost::json;

namespace {

constexpr const char* emoji = "\xF0\x9F\x98\x80"; // no token of the demo's
constexpr const char* special_name = "<|endoftext|>";

json::object choice_of(const LiveServer& server, json::object body,
                       const char* path = "/v1/completions") {
  body["temperature"] = 0;
  return server.post(path, body).at("choices").at(0).as_object();
}

std::string string_of(const json::value& value) {
  return std::string(value.as_string());
}

/// Byte offset of each character of a text, and of its end.
std::vector<std::size_t> characters_of(const std::string& text) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0u) != 0x80u)
      all.push_back(i);
  all.push_back(text.size());
  return all;
}

/// Each token that is whole characters stands where its offset says.
void check_offsets(const std::string& text, const json::object& scores) {
  const auto places = characters_of(text);
  const auto& tokens = scores.at("tokens").as_array();
  const auto& offsets = scores.at("text_offset").as_array();
  REQUIRE(tokens.size() == offsets.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string token = string_of(tokens[i]);
    const auto offset = offsets[i].to_number<std::size_t>();
    CAPTURE(i);
    CAPTURE(token);
    REQUIRE(offset < places.size());
    if (!token.starts_with("bytes:") && token != special_name)
      CHECK(text.compare(places[offset], token.size(), token) == 0);
  }
}

/// The parts of a stream's log-probabilities, joined.
json::object streamed_scores(const LiveServer& server, json::object body, std::string& text) {
  body["stream"] = true;
  body["temperature"] = 0;
  HttpClient client(server.port());
  client.send("POST", "/v1/completions", json::serialize(body));
  CHECK(client.read_head().status == 200);
  json::object all;
  for (const json::object& event : client.read_events())
    for (const json::value& choice : event.at("choices").as_array()) {
      text += choice.at("text").as_string();
      if (const auto* scores = choice.at("logprobs").if_object())
        for (const auto& [name, values] : *scores)
          for (const json::value& value : values.as_array())
            (all[name].is_null() ? all[name].emplace_array() : all[name].get_array())
                .push_back(value);
    }
  return all;
}

} // namespace

TEST_CASE("a chat's log-probabilities have the bytes of parts of characters") {
  LiveServer server;
  const auto ids = server.engine().tokenize(emoji, false);
  REQUIRE(ids.size() == 4);
  json::object body{{"messages", {{{"role", "user"}, {"content", "x = '"}}}},
                    {"max_tokens", 4},
                    {"logprobs", true},
                    {"top_logprobs", 4},
                    {"allowed_token_ids", json::array(ids.begin(), ids.end())}};
  const auto scores = choice_of(server, body, "/v1/chat/completions").at("logprobs");
  for (const json::value& token : scores.at("content").as_array()) {
    const auto& bytes = token.at("bytes").as_array();
    REQUIRE(bytes.size() == 1);
    CHECK(std::string(emoji).find(char(bytes[0].to_number<int>())) != std::string::npos);
    CHECK(string_of(token.at("token")).starts_with("bytes:\\x"));
    std::set<std::string> names;
    for (const json::value& top : token.at("top_logprobs").as_array())
      names.insert(string_of(top.at("token")));
    CHECK(names.size() == 4); // each has a name of its own
  }
}

TEST_CASE("offsets index the text, parts of a character share its place, and keys do not collide") {
  LiveServer server;
  json::object body{{"prompt", "x = '" + std::string(emoji) + "\u00e9'\ny"},
                    {"max_tokens", 6},
                    {"echo", true},
                    {"logprobs", 5}};
  const json::object choice = choice_of(server, body);
  const std::string text = string_of(choice.at("text"));
  const auto& scores = choice.at("logprobs").as_object();
  check_offsets(text, scores);
  const auto& tokens = scores.at("tokens").as_array();
  const auto first = std::find(tokens.begin(), tokens.end(), json::value("bytes:\\xf0"));
  REQUIRE(first != tokens.end());
  const auto at = std::size_t(first - tokens.begin());
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(scores.at("text_offset").at(at + i) == scores.at("text_offset").at(at));
  std::string streamed;
  const json::object parts = streamed_scores(server, body, streamed);
  CHECK(streamed == text);
  CHECK(parts.at("text_offset") == scores.at("text_offset"));
  CHECK(parts.at("tokens") == tokens);
  for (const json::value& top : scores.at("top_logprobs").as_array())
    if (top.is_object())
      CHECK(top.as_object().size() >= 5);
  body["echo"] = false; // the same places, from the answer's beginning
  const json::object alone = choice_of(server, body);
  check_offsets(string_of(alone.at("text")), alone.at("logprobs").as_object());
}

TEST_CASE("special tokens have their names, and their place in a text that shows them") {
  LiveServer server;
  json::object body{{"prompt", "x = 1\n"},
                    {"max_tokens", 6},
                    {"ignore_eos", true},
                    {"logprobs", 2},
                    {"logit_bias", {{"0", 9}}}};
  for (const bool skip : {true, false}) {
    CAPTURE(skip);
    body["skip_special_tokens"] = skip;
    const json::object choice = choice_of(server, body);
    const std::string text = string_of(choice.at("text"));
    const auto& scores = choice.at("logprobs").as_object();
    const auto& tokens = scores.at("tokens").as_array();
    REQUIRE(std::count(tokens.begin(), tokens.end(), json::value(special_name)) > 0);
    CHECK((text.find(special_name) == std::string::npos) == skip);
    check_offsets(text, scores);
    std::string streamed;
    CHECK(streamed_scores(server, body, streamed).at("text_offset") == scores.at("text_offset"));
    for (const json::value& top : scores.at("top_logprobs").as_array())
      CHECK(!top.as_object().contains(""));
  }
  // One that the client wrote is echoed, and has a place.
  body["prompt"] = std::string(special_name) + "a\u00e9b";
  body["echo"] = true;
  const json::object echoed = choice_of(server, body);
  check_offsets(string_of(echoed.at("text")), echoed.at("logprobs").as_object());
}

TEST_CASE("a chat names the special token that ends it") {
  LiveServer server;
  const json::object body{{"messages", {{{"role", "user"}, {"content", "x = 1"}}}},
                          {"max_tokens", 2},
                          {"logprobs", true},
                          {"top_logprobs", 5},
                          {"logit_bias", {{"0", 100}}}};
  const auto scores = choice_of(server, body, "/v1/chat/completions").at("logprobs");
  const auto& first = scores.at("content").at(0);
  CHECK(first.at("token") == special_name);
  CHECK(first.at("bytes").as_array().size() == std::string(special_name).size());
  for (const json::value& top : first.at("top_logprobs").as_array())
    CHECK(!string_of(top.at("token")).empty());
}

TEST_CASE("a prompt's scores and the strings of /tokenize name tokens alike") {
  LiveServer server;
  const json::object strings = server.post(
      "/tokenize", {{"prompt", emoji}, {"return_token_strs", true}, {"add_special_tokens", false}});
  CHECK(strings.at("token_strs") ==
        json::array{"bytes:\\xf0", "bytes:\\x9f", "bytes:\\x98", "bytes:\\x80"});
  const json::object body{
      {"prompt", "a" + std::string(emoji)}, {"max_tokens", 1}, {"prompt_logprobs", 0}};
  const auto scores = choice_of(server, body).at("prompt_logprobs").as_array();
  CHECK(scores.back().as_object().begin()->value().at("decoded_token") == "bytes:\\x80");
}

TEST_CASE("a stream says who wrote each token if it is asked to, and only beside its logprobs") {
  LiveServer server(demo_pair());
  json::object body{{"max_tokens", 60},
                    {"ignore_eos", true},
                    {"stream", true},
                    {"stream_options", {{"include_usage", true}}},
                    {"speculation", {{"mode", "sync"}, {"window", 3}, {"sources", true}}}};
  for (const bool chat : {true, false}) {
    CAPTURE(chat);
    body["messages"] = json::array{{{"role", "user"}, {"content", "def f(x):"}}};
    body["logprobs"] = true;
    if (!chat) {
      body.erase("messages");
      body["prompt"] = "def f(x):";
      body["logprobs"] = 0;
    }
    const char* path = chat ? "/v1/chat/completions" : "/v1/completions";
    HttpClient client(server.port());
    client.send("POST", path, json::serialize(body));
    REQUIRE(client.read_head().status == 200);
    std::size_t tokens = 0;
    std::int64_t drafted = 0;
    json::object usage;
    for (const json::object& chunk : client.read_events()) {
      if (chunk.at("usage").is_object())
        usage = chunk.at("usage").as_object();
      for (const json::value& choice : chunk.at("choices").as_array()) {
        if (choice.at("logprobs").is_null())
          continue;
        const auto& scores = choice.at("logprobs").as_object();
        const auto& list = scores.at(chat ? "content" : "sources").as_array();
        for (const json::value& one : list) {
          const std::string source = string_of(chat ? one.at("source") : one);
          ++tokens;
          drafted += source != "target";
          CHECK((source == "target" || source == "draft" || source == "lookahead"));
        }
        if (!chat)
          CHECK(list.size() == scores.at("tokens").as_array().size());
      }
    }
    CHECK(tokens == 60);
    CHECK(drafted == usage.at("speculation").at("accepted").to_number<std::int64_t>());
    CHECK(drafted > 0);
    body["stream"] = false;
    body.erase("stream_options");
    const HttpReply whole = server.ask("POST", path, json::serialize(body));
    CHECK(whole.status == 400);
    CHECK(whole.json().at("error").at("param") == "speculation.sources");
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
}
