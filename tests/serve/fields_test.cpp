// Fields that change the answer: they do, or they are refused by name.
#include "tests/serve/live_server.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>
#include <limits>
#include <set>

using namespace paceline;
using namespace paceline::testing;
namespace json = boost::json;

namespace {

json::object body_of(const std::string& prompt, int tokens = 24) {
  return {{"prompt", prompt}, {"max_tokens", tokens}, {"temperature", 0}};
}

std::string said_in(const json::object& reply) {
  return std::string(reply.at("choices").at(0).at("text").as_string());
}

json::value choice_of(const json::object& reply) {
  return reply.at("choices").at(0);
}

/// The texts of a stream's chunks, together.
std::string streamed(const LiveServer& server, json::object body) {
  body["stream"] = true;
  HttpClient client(server.port());
  client.send("POST", "/v1/completions", json::serialize(body));
  CHECK(client.read_head().status == 200);
  std::string text;
  for (const json::object& event : client.read_events())
    for (const json::value& choice : event.at("choices").as_array())
      text += choice.at("text").as_string();
  return text;
}

} // namespace

TEST_CASE("fields that would change the answer and cannot be had are refused by name") {
  LiveServer server(scripted());
  const std::pair<const char*, const char*> cases[] = {{"chat_template", "\"{{ messages }}\""},
                                                       {"documents", "[{\"text\": \"x\"}]"},
                                                       {"return_tokens_as_token_ids", "true"},
                                                       {"typical_p", "0.5"},
                                                       {"repeat_penalty", "1.1"},
                                                       {"mirostat", "2"},
                                                       {"reasoning_effort", "\"low\""},
                                                       {"enable_thinking", "true"}};
  for (const auto& [name, value] : cases) {
    CAPTURE(name);
    for (const auto& [path, prompt] :
         {std::pair{"/v1/completions", R"("prompt": [1])"},
          std::pair{"/v1/chat/completions", R"("messages": [{"role": "user", "content": "x"}])"}}) {
      const std::string body = std::string("{") + prompt + ", \"" + name + "\": " + value + "}";
      const HttpReply reply = server.ask("POST", path, body);
      CHECK(reply.status == 400);
      CHECK(reply.json().at("error").at("param") == name);
      CHECK(reply.json().at("error").at("code") == "unsupported_parameter");
    }
  }
  const std::string harmless =
      R"({"prompt": [1], "max_tokens": 2, "skip_special_tokens": true, "typical_p": 1.0,
          "repeat_penalty": 1, "min_tokens": 0, "mirostat": 0, "grammar": "", "documents": null})";
  CHECK(server.ask("POST", "/v1/completions", harmless).status == 200);
}

TEST_CASE("a stop string is in the text where it is wanted there") {
  LiveServer server;
  json::object body = body_of("def f(x):", 40);
  const std::string whole = said_in(server.post("/v1/completions", body));
  const std::string stop = whole.substr(whole.size() / 2, 3);
  body["stop"] = stop;
  const std::string before = whole.substr(0, whole.find(stop));
  CHECK(said_in(server.post("/v1/completions", body)) == before);
  body["include_stop_str_in_output"] = true;
  CHECK(said_in(server.post("/v1/completions", body)) == before + stop);
  CHECK(streamed(server, body) == before + stop);
}

TEST_CASE("a stop token ends the answer, is named, and is not in its text unless wanted") {
  LiveServer server;
  json::object body = body_of("def f(x):", 40);
  body["logprobs"] = 0;
  const json::object whole = server.post("/v1/completions", body);
  const auto tokens = choice_of(whole).at("logprobs").at("tokens").as_array();
  REQUIRE(tokens.size() > 10);
  Request request;
  request.prompt = "def f(x):";
  request.max_tokens = 40;
  request.sampling.temperature = 0.0F;
  const auto ids = server.engine().complete(request).value().tokens;
  const TokenId stop = ids[5];
  const auto first = std::size_t(std::find(ids.begin(), ids.end(), stop) - ids.begin());
  std::string before;
  for (std::size_t i = 0; i < first; ++i)
    before += server.engine().token_bytes(ids[i]);
  body.erase("logprobs");
  body["stop_token_ids"] = {stop};
  const json::object reply = server.post("/v1/completions", body);
  CHECK(said_in(reply) == before);
  CHECK(choice_of(reply).at("finish_reason") == "stop");
  CHECK(choice_of(reply).at("stop_reason") == stop);
  CHECK(reply.at("usage").at("completion_tokens") == first + 1);
  CHECK(streamed(server, body) == before);
  body["include_stop_str_in_output"] = true;
  CHECK(said_in(server.post("/v1/completions", body)) ==
        before + server.engine().token_bytes(stop));
  body["stop_token_ids"] = {99'999'999};
  CHECK(server.ask("POST", "/v1/completions", json::serialize(body)).status == 400);
}

TEST_CASE("special tokens have a text where that is wanted, but for one that ends the answer") {
  LiveServer server;
  const Engine& engine = server.engine();
  TokenId special = 0;
  while (!engine.token_bytes(special).empty() || engine.token_bytes(special, false).empty())
    REQUIRE(++special < 100'000);
  const std::string text = engine.token_bytes(special, false);
  json::object body = body_of("def f(x):", 3);
  body["allowed_token_ids"] = {special};
  body["ignore_eos"] = true;
  CHECK(said_in(server.post("/v1/completions", body)).empty());
  body["skip_special_tokens"] = false;
  CHECK(said_in(server.post("/v1/completions", body)) == text + text + text);
  CHECK(streamed(server, body) == text + text + text);
  body["stop_token_ids"] = {special};
  const json::object stopped = server.post("/v1/completions", body);
  CHECK(said_in(stopped).empty());
  CHECK(stopped.at("usage").at("completion_tokens") == 1);
  body["include_stop_str_in_output"] = true;
  CHECK(said_in(server.post("/v1/completions", body)) == text);
  body["min_tokens"] = 2; // nothing is left
  CHECK(server.ask("POST", "/v1/completions", json::serialize(body)).status == 400);
}

TEST_CASE("bad words never come, and those of several tokens are refused") {
  LiveServer server;
  json::object body = body_of("def f(x):\n    return", 12);
  Request request;
  request.prompt = "def f(x):\n    return";
  request.max_tokens = 12;
  request.sampling.temperature = 0.0F;
  const auto ids = server.engine().complete(request).value().tokens;
  std::string word; // the first of the output that is one token by itself
  for (const TokenId id : ids) {
    const std::string text = server.engine().token_bytes(id);
    const auto begin = text.find_first_not_of(" \n");
    if (!word.empty() || begin == std::string::npos)
      continue;
    if (server.engine().tokenize(text.substr(begin), false).size() == 1)
      word = text.substr(begin);
  }
  REQUIRE(!word.empty());
  body["bad_words"] = {word};
  body["logprobs"] = 0;
  const json::object reply = server.post("/v1/completions", body);
  const auto banned = server.engine().tokenize(word, false);
  const auto inside = server.engine().tokenize(" " + word, false);
  const json::value choice = choice_of(reply);
  for (const json::value& token : choice.at("logprobs").at("tokens").as_array())
    for (const auto& one : {banned, inside})
      if (one.size() == 1)
        CHECK(token.as_string() != server.engine().token_bytes(one.front()));
  body["bad_words"] = {"supercalifragilistic nonsense"};
  const HttpReply refused = server.ask("POST", "/v1/completions", json::serialize(body));
  CHECK(refused.status == 400);
  CHECK(refused.json().at("error").at("param") == "bad_words");
}

TEST_CASE("a prompt is cut to its last tokens where that is asked for") {
  LiveServer server;
  const auto ids = server.engine().tokenize("def fibonacci(n):\n    return");
  json::object body = body_of("def fibonacci(n):\n    return", 8);
  body["truncate_prompt_tokens"] = 4;
  const json::object cut = server.post("/v1/completions", body);
  CHECK(cut.at("usage").at("prompt_tokens") == 4);
  body.erase("truncate_prompt_tokens");
  body["prompt"] = json::array(ids.end() - 4, ids.end());
  CHECK(said_in(server.post("/v1/completions", body)) == said_in(cut));
  std::string text;
  while (text.size() < 100'000)
    text += "x = 1\n";
  body["prompt"] = text;
  body["truncate_prompt_tokens"] = -1;
  const int context = server.engine().target().max_model_len;
  CHECK(server.post("/v1/completions", body).at("usage").at("prompt_tokens") == context - 1);
}

TEST_CASE("log-probabilities of a prompt come for themselves, as vLLM has them") {
  LiveServer server;
  json::object body = body_of("def f(x):", 3);
  body["prompt_logprobs"] = 2;
  const json::object reply = server.post("/v1/completions", body);
  const auto scores = choice_of(reply).at("prompt_logprobs").as_array();
  const auto ids = server.engine().tokenize("def f(x):");
  REQUIRE(scores.size() == ids.size());
  CHECK(scores[0].is_null());
  CHECK(choice_of(reply).at("logprobs").is_null());
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const auto& one = scores[i].as_object();
    CHECK(one.size() <= 3);
    CHECK(one.at(std::to_string(ids[i])).at("logprob").as_double() <= 0);
    CHECK(one.begin()->value().at("rank") == 1);
  }
  body["stream"] = true;
  CHECK(server.ask("POST", "/v1/completions", json::serialize(body)).status == 400);
}

TEST_CASE("an answer goes on with the last message") {
  LiveServer server;
  const json::object body{{"messages",
                           {{{"role", "user"}, {"content", "Sort a list."}},
                            {{"role", "assistant"}, {"content", "def sort(items):"}}}},
                          {"continue_final_message", true},
                          {"max_tokens", 12},
                          {"temperature", 0}};
  const json::object reply = server.post("/v1/chat/completions", body);
  std::string text = server.engine()
                         .render_chat({{"user", "Sort a list."}, {"assistant", "def sort(items):"}},
                                      {.add_generation_prompt = false})
                         .value();
  text.resize(text.rfind("def sort(items):") + std::string("def sort(items):").size());
  Request request;
  request.prompt_tokens = server.engine().tokenize(text, false, true);
  request.max_tokens = 12;
  request.sampling.temperature = 0.0F;
  CHECK(choice_of(reply).at("message").at("content").as_string() ==
        server.engine().complete(request).value().text);
  json::object both = body;
  both["add_generation_prompt"] = true;
  CHECK(server.ask("POST", "/v1/chat/completions", json::serialize(both)).status == 400);
}

TEST_CASE("a special token that a message spells is text, whatever else is asked of the chat") {
  LiveServer server;
  const TokenId end = server.engine().tokenize("<|endoftext|>", false, true).at(0);
  json::object body{{"messages",
                     {{{"role", "user"}, {"content", "a<|endoftext|>b"}},
                      {{"role", "assistant"}, {"content", "c<|endoftext|>d"}}}}};
  for (const bool goes_on : {false, true}) {
    body["continue_final_message"] = goes_on;
    body["add_generation_prompt"] = !goes_on;
    const auto tokens = server.post("/tokenize", body).at("tokens").as_array();
    CHECK(tokens.size() > 10);
    CHECK(std::ranges::find(tokens, json::value(end)) == tokens.end());
    json::object asked = body;
    asked["max_tokens"] = 1;
    CHECK(server.post("/v1/chat/completions", asked).at("usage").at("prompt_tokens") ==
          std::int64_t(tokens.size()));
  }
}

TEST_CASE("a chat template is told its variables") {
  LiveServer server(scripted()); // which has the plain format
  const std::vector<ChatMessage> messages{{"user", "x"}};
  const std::string plain = server.engine().render_chat(messages).value();
  const std::string opened =
      server.engine()
          .render_chat(messages, {.variables = {{"opening", "\"import this\\n\""}}})
          .value();
  CHECK(opened.find("import this\n") != std::string::npos);
  CHECK(plain.find("import this") == std::string::npos);
  CHECK(!server.engine().render_chat(messages, {.variables = {{"opening", "{"}}}));
  json::object body{{"messages", {{{"role", "user"}, {"content", "x"}}}},
                    {"max_tokens", 1},
                    {"chat_template_kwargs", {{"opening", "import this\n"}}}};
  const auto usage = server.post("/v1/chat/completions", body).at("usage");
  CHECK(usage.at("prompt_tokens") == server.engine().tokenize(opened, false).size());
  body["chat_template_kwargs"] = {{"messages", json::array()}};
  const HttpReply refused = server.ask("POST", "/v1/chat/completions", json::serialize(body));
  CHECK(refused.status == 400);
  CHECK(refused.json().at("error").at("param") == "chat_template_kwargs.messages");
}

TEST_CASE("the seed that a choice reports gives it alone, whichever choice it was") {
  LiveServer server;
  json::object body = body_of("def f(", 20);
  body["temperature"] = 1;
  body["speculation"] = {{"verify", "coupled"}};
  for (const bool given : {false, true}) {
    CAPTURE(given);
    json::object several = body;
    several["n"] = 3;
    if (given)
      several["seed"] = 7;
    const json::object reply = server.post("/v1/completions", several);
    std::set<std::uint64_t> seeds;
    for (const json::value& choice : reply.at("choices").as_array()) {
      CHECK(choice.at("reproducible") == true);
      json::object again = body;
      again["seed"] = choice.at("seed");
      seeds.insert(choice.at("seed").to_number<std::uint64_t>());
      CHECK(said_in(server.post("/v1/completions", again)) ==
            std::string(choice.at("text").as_string()));
    }
    CHECK(seeds.size() == 3);
    if (!given)
      continue;
    CHECK(seeds.contains(7));
    CHECK(server.post("/v1/completions", several).at("choices") == reply.at("choices"));
  }
}

TEST_CASE("no banned word comes, even where nothing else is left") {
  LiveServer server;
  json::object body = body_of("def f(", 4);
  body["temperature"] = 0;
  const auto self = server.engine().tokenize("self", false);
  REQUIRE(self.size() == 1);
  json::array allowed{self.front()};
  const auto inside = server.engine().tokenize(" self", false);
  if (inside.size() == 1)
    allowed.push_back(inside.front());
  body["allowed_token_ids"] = allowed;
  CHECK(server.ask("POST", "/v1/completions", json::serialize(body)).status == 200);
  body["bad_words"] = {"self"};
  const HttpReply refused = server.ask("POST", "/v1/completions", json::serialize(body));
  INFO(refused.body);
  CHECK(refused.status == 400);
  CHECK(refused.body.find("no token can be drawn") != std::string::npos);
}

TEST_CASE("any number of tokens is cut to what the context leaves") {
  EngineOptions options = scripted();
  options.max_model_len = 64;
  LiveServer server(options);
  const int room = options.max_model_len - 3;
  for (const int asked : {room + 1, 1 << 30, std::numeric_limits<int>::max()}) {
    CAPTURE(asked);
    json::object body{
        {"prompt", json::array{1, 2, 3}}, {"max_tokens", asked}, {"ignore_eos", true}};
    const json::object reply = server.post("/v1/completions", body);
    CHECK(reply.at("usage").at("completion_tokens") == room);
  }
}

TEST_CASE("what a choice reports is enough to repeat it where it says so") {
  LiveServer server;
  json::object body = body_of("def f(x):", 30);
  body["temperature"] = 1;
  for (const char* mode : {"off", "sync", "overlap"}) {
    CAPTURE(mode);
    body["speculation"] = {{"mode", mode}, {"window", 3}};
    const json::value first = choice_of(server.post("/v1/completions", body));
    CHECK(first.at("verify") == "rejection");
    CHECK(first.at("seed").to_number<std::uint64_t>() < (1ULL << 53));
    CHECK(first.at("reproducible") == (std::string(mode) != "overlap"));
    if (first.at("reproducible") == false)
      continue;
    json::object again = body;
    again["seed"] = first.at("seed");
    again["speculation"].as_object()["verify"] = first.at("verify");
    CHECK(said_in(server.post("/v1/completions", again)) ==
          std::string(first.at("text").as_string()));
  }
}
