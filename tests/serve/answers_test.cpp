// What comes over HTTP is what the library gives, whole and as a stream.
#include "sampling/choice_seed.hpp"
#include "tests/serve/live_server.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;
namespace json = boost::json;

namespace {

constexpr const char* function_head = "def fibonacci(n):";

Request request_of(int tokens, std::uint64_t seed) {
  Request request;
  request.prompt = function_head;
  request.max_tokens = tokens;
  request.sampling.seed = seed;
  return request;
}

json::object body_of(int tokens, std::uint64_t seed) {
  return {{"prompt", function_head}, {"max_tokens", tokens}, {"seed", seed}};
}

struct Streamed {
  std::vector<std::string> texts; ///< Of each choice.
  std::vector<std::string> reasons;
  std::vector<json::object> events;
};

/// Asks for a stream, and puts the parts of each choice together.
Streamed stream(const LiveServer& server, const std::string& target, json::object body,
                std::size_t choices = 1) {
  body["stream"] = true;
  HttpClient client(server.port());
  client.send("POST", target, json::serialize(body));
  const HttpReply head = client.read_head();
  CHECK(head.status == 200);
  CHECK(head.headers.at("content-type").starts_with("text/event-stream"));
  Streamed all{std::vector<std::string>(choices), std::vector<std::string>(choices),
               client.read_events()};
  for (const json::object& event : all.events)
    for (const json::value& choice : event.at("choices").as_array()) {
      const auto index = std::size_t(choice.at("index").as_int64());
      REQUIRE(index < choices);
      CHECK(all.reasons[index].empty()); // nothing after the end
      if (const auto* delta = choice.as_object().if_contains("delta")) {
        if (const auto* text = delta->as_object().if_contains("content"))
          all.texts[index] += text->as_string();
      } else {
        all.texts[index] += choice.at("text").as_string();
      }
      if (const auto* reason = choice.at("finish_reason").if_string())
        all.reasons[index] = *reason;
    }
  CHECK(client.ask("GET", "/health").status == 200); // the connection goes on
  return all;
}

std::string text_of(const json::object& reply, std::size_t choice = 0) {
  return std::string(reply.at("choices").at(choice).at("text").as_string());
}

} // namespace

TEST_CASE("a completion is the library's for the same seed, whole and streamed") {
  LiveServer server;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const Completion expected = server.engine().complete(request_of(40, seed)).value();
    const json::object reply = server.post("/v1/completions", body_of(40, seed));
    CHECK(text_of(reply) == expected.text);
    CHECK(reply.at("object") == "text_completion");
    CHECK(reply.at("model") == "demo");
    const auto& choice = reply.at("choices").at(0);
    CHECK(choice.at("finish_reason") == to_string(expected.end.reason));
    CHECK(choice.at("seed") == seed);
    CHECK(choice.at("logprobs").is_null());
    const auto& usage = reply.at("usage").as_object();
    CHECK(usage.at("completion_tokens") == expected.end.usage.completion_tokens);
    CHECK(usage.at("prompt_tokens") == expected.end.usage.prompt_tokens);
    const Streamed streamed = stream(server, "/v1/completions", body_of(40, seed));
    CHECK(streamed.texts[0] == expected.text);
    CHECK(streamed.reasons[0] == to_string(expected.end.reason));
    CHECK(streamed.events.size() > 3); // not all at once
  }
}

TEST_CASE("a chat is the library's answer to the rendered conversation") {
  LiveServer server;
  const std::vector<ChatMessage> messages{{"system", "Write Python."}, {"user", "Sort a list."}};
  Request request = request_of(30, 7);
  request.prompt.clear();
  request.prompt_tokens = server.engine().chat_tokens(messages).value();
  const Completion expected = server.engine().complete(request).value();
  json::object body{{"messages",
                     {{{"role", "system"}, {"content", "Write Python."}},
                      {{"role", "user"}, {"content", "Sort a list."}}}},
                    {"max_completion_tokens", 30},
                    {"seed", 7}};
  const json::object reply = server.post("/v1/chat/completions", body);
  CHECK(reply.at("object") == "chat.completion");
  CHECK(reply.at("id").as_string().starts_with("chatcmpl-"));
  const auto& message = reply.at("choices").at(0).at("message");
  CHECK(message.at("content").as_string() == expected.text);
  CHECK(message.at("role") == "assistant");
  const Streamed streamed = stream(server, "/v1/chat/completions", body);
  CHECK(streamed.texts[0] == expected.text);
  CHECK(streamed.events.front().at("choices").at(0).at("delta").at("role") == "assistant");
  CHECK(streamed.events.front().at("object") == "chat.completion.chunk");
}

TEST_CASE("several prompts with several answers each come in order, or as they come") {
  LiveServer server;
  std::vector<std::string> expected;
  for (const char* text : {"import", "class A"})
    for (int choice = 0; choice < 3; ++choice) {
      Request request = request_of(20, sampling::choice_seed(5, std::uint32_t(choice)));
      request.prompt = text;
      expected.push_back(server.engine().complete(request).value().text);
    }
  CHECK(expected[0] != expected[1]);
  json::object body = body_of(20, 5);
  body["prompt"] = {"import", "class A"};
  body["n"] = 3;
  const json::object reply = server.post("/v1/completions", body);
  REQUIRE(reply.at("choices").as_array().size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(text_of(reply, i) == expected[i]);
    CHECK(reply.at("choices").at(i).at("index") == i);
  }
  const auto tokens = std::int64_t(server.engine().tokenize("import").size() +
                                   server.engine().tokenize("class A").size());
  CHECK(reply.at("usage").at("prompt_tokens") == tokens); // each prompt once
  CHECK(stream(server, "/v1/completions", body, 6).texts == expected);
}

TEST_CASE("a prompt of ids is taken as it is") {
  LiveServer server;
  Request request = request_of(10, 3);
  request.prompt.clear();
  request.prompt_tokens = server.engine().tokenize("for i in");
  const std::string expected = server.engine().complete(request).value().text;
  json::object body = body_of(10, 3);
  body["prompt"] = json::array(request.prompt_tokens.begin(), request.prompt_tokens.end());
  CHECK(text_of(server.post("/v1/completions", body)) == expected);
  body["prompt"] = json::array{body["prompt"]};
  CHECK(text_of(server.post("/v1/completions", body)) == expected);
}

TEST_CASE("a stop string ends the text before it, and is named") {
  LiveServer server;
  const std::string whole = server.engine().complete(request_of(40, 4)).value().text;
  const std::string stop = whole.substr(whole.size() / 2, 3);
  const std::string expected = whole.substr(0, whole.find(stop));
  json::object body = body_of(40, 4);
  body["stop"] = {"never in there", stop};
  const json::object reply = server.post("/v1/completions", body);
  CHECK(text_of(reply) == expected);
  CHECK(reply.at("choices").at(0).at("finish_reason") == "stop");
  CHECK(reply.at("choices").at(0).at("stop_reason").as_string() == stop);
  CHECK(stream(server, "/v1/completions", body).texts[0] == expected);
}

TEST_CASE("log-probabilities of output and prompt are the library's, as harnesses want them") {
  LiveServer server;
  Request request = request_of(6, 9);
  request.logprobs = true;
  request.top_logprobs = 2;
  request.prompt_logprobs = true;
  Stream direct = server.engine().submit(request).value();
  std::vector<TokenLogprob> expected;
  while (auto event = direct.next())
    if (const auto* scores = std::get_if<PromptLogprobs>(&*event))
      expected = scores->logprobs;
    else if (const auto* delta = std::get_if<Delta>(&*event))
      expected.insert(expected.end(), delta->logprobs.begin(), delta->logprobs.end());

  json::object body = body_of(6, 9);
  body["logprobs"] = 2;
  body["echo"] = true;
  const json::object reply = server.post("/v1/completions", body);
  CHECK(text_of(reply).starts_with(function_head));
  const auto& scores = reply.at("choices").at(0).at("logprobs").as_object();
  const auto& values = scores.at("token_logprobs").as_array();
  const auto& tokens = scores.at("tokens").as_array();
  const auto& offsets = scores.at("text_offset").as_array();
  REQUIRE(values.size() == expected.size());
  REQUIRE(tokens.size() == expected.size());
  CHECK(values[0].is_null());
  std::string text;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(offsets[i] == text.size());
    text += tokens[i].as_string();
    if (i == 0)
      continue;
    CHECK(values[i].as_double() == doctest::Approx(double(expected[i].logprob)));
    const auto& top = scores.at("top_logprobs").at(i).as_object();
    CHECK(top.at(tokens[i].as_string()).as_double() == values[i].as_double());
    for (const auto& [name, value] : top)
      CHECK(value.as_double() <= doctest::Approx(double(expected[i].top.front().second)));
  }
  CHECK(text == text_of(reply));

  // The same, part by part.
  std::size_t count = 0;
  for (const json::object& event : stream(server, "/v1/completions", body).events)
    if (const auto* part = event.at("choices").at(0).at("logprobs").if_object())
      for (const json::value& value : part->at("token_logprobs").as_array())
        CHECK(value == values[count++]);
  CHECK(count == values.size());

  // A prompt is scored without anything being generated.
  body["max_tokens"] = 0;
  const json::object scored = server.post("/v1/completions", body);
  CHECK(text_of(scored) == function_head);
  CHECK(scored.at("choices").at(0).at("logprobs").at("token_logprobs").as_array().size() ==
        server.engine().tokenize(function_head).size());
}

TEST_CASE("a chat's log-probabilities have bytes and the likeliest others") {
  LiveServer server;
  const json::object reply =
      server.post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "x = "}}}},
                                           {"max_tokens", 5},
                                           {"seed", 2},
                                           {"logprobs", true},
                                           {"top_logprobs", 3}});
  const auto& choice = reply.at("choices").at(0);
  std::string text;
  for (const json::value& token : choice.at("logprobs").at("content").as_array()) {
    text += token.at("token").as_string();
    CHECK(token.at("logprob").as_double() <= 0);
    CHECK(token.at("top_logprobs").as_array().size() == 3);
    if (const auto* bytes = token.at("bytes").if_array())
      CHECK(bytes->size() == token.at("token").as_string().size());
  }
  CHECK(choice.at("message").at("content").as_string() == text);
}

TEST_CASE("a stream tells its usage where that is asked for") {
  LiveServer server;
  json::object body = body_of(12, 1);
  body["stream_options"] = {{"include_usage", true}};
  body["speculation"] = {{"mode", "sync"}, {"window", 3}, {"verify", "coupled"}};
  const Streamed streamed = stream(server, "/v1/completions", body);
  const json::object& last = streamed.events.back();
  CHECK(last.at("choices").as_array().empty());
  for (std::size_t i = 0; i + 1 < streamed.events.size(); ++i)
    CHECK(streamed.events[i].at("usage").is_null());
  const auto& usage = last.at("usage").as_object();
  CHECK(usage.at("completion_tokens") == 12);
  const auto& ours = usage.at("speculation").as_object();
  CHECK(ours.at("mode") == "sync");
  CHECK(ours.at("verify") == "coupled");
  CHECK(ours.at("window") == 3);
  CHECK(!usage.contains("completion_tokens_details")); // OpenAI's mean something else
  CHECK(ours.at("judged").to_number<int>() > 0);
  const auto& vllm = last.at("metrics").at("speculative_decoding").as_object();
  CHECK(vllm.at("num_draft_tokens") == ours.at("drafted"));
  CHECK(vllm.at("num_accepted_draft_tokens") == ours.at("accepted"));
  CHECK(vllm.at("num_spec_steps") == ours.at("rounds"));
  CHECK(vllm.at("num_spec_tokens") == 3);
}

TEST_CASE("models, tokens, versions and states are told") {
  apps::serve::Settings settings;
  settings.model_names = {"one", "org/two"};
  LiveServer server(demo_pair(), settings);
  const json::object list = server.ask("GET", "/v1/models").json();
  CHECK(list.at("object") == "list");
  CHECK(list.at("data").at(1).at("id") == "org/two");
  CHECK(server.ask("GET", "/v1/models/org/two").json().at("object") == "model");
  CHECK(server.ask("GET", "/v1/models/org%2Ftwo").status == 200);
  json::object body = body_of(1, 1);
  body["model"] = "org/two";
  CHECK(server.post("/v1/completions", body).at("model") == "org/two");

  const json::object tokens =
      server.post("/tokenize", {{"prompt", "def f(x):"}, {"return_token_strs", true}});
  const auto ids = server.engine().tokenize("def f(x):");
  CHECK(tokens.at("count") == ids.size());
  CHECK(tokens.at("tokens") == json::array(ids.begin(), ids.end()));
  CHECK(tokens.at("token_strs").as_array().size() == ids.size());
  CHECK(server.post("/detokenize", {{"tokens", tokens.at("tokens")}}).at("prompt") == "def f(x):");
  const json::object chat =
      server.post("/tokenize", {{"messages", {{{"role", "user"}, {"content", "x"}}}}});
  CHECK(chat.at("count").to_number<int>() > 0);
  CHECK(server.ask("POST", "/detokenize", R"({"tokens": [99999999]})").status == 400);
  CHECK(server.ask("POST", "/tokenize", "{}").status == 400);

  CHECK(server.ask("GET", "/version").json().at("version").is_string());
  CHECK(server.ask("GET", "/health").json().at("status") == "ready");
  CHECK(server.ask("GET", "/ready").status == 200);
}

TEST_CASE("a request's id is the client's where it may be") {
  LiveServer server(scripted());
  const std::string body = R"({"prompt": [1], "max_tokens": 1})";
  const HttpReply mine = server.ask("POST", "/v1/completions", body, {{"X-Request-Id", "a-1.b_2"}});
  CHECK(mine.headers.at("x-request-id") == "a-1.b_2");
  CHECK(mine.json().at("id") == "cmpl-a-1.b_2");
  for (const std::string& wrong : {std::string("a b"), std::string(200, 'x'), std::string("\"")})
    CHECK(server.ask("GET", "/health", "", {{"X-Request-Id", wrong}}).headers.at("x-request-id") !=
          wrong);
}

TEST_CASE("long prompts are encoded aside and give the same") {
  LiveServer server;
  std::string text;
  while (text.size() < 3 * apps::limits::encode_here_bytes)
    text += "x = 1\n";
  const auto ids = server.engine().tokenize(text);
  CHECK(server.post("/tokenize", {{"prompt", text}}).at("count") == ids.size());
  json::object body = body_of(4, 1);
  body["prompt"] = text;
  const HttpReply reply = server.ask("POST", "/v1/completions", json::serialize(body));
  CHECK(reply.status == 400); // more than the demo's context
  CHECK(reply.body.find(std::to_string(ids.size()) + " tokens") != std::string::npos);
}

TEST_CASE("an old client without chunks gets its stream up to the end of the connection") {
  LiveServer server(scripted());
  HttpClient client(server.port());
  const std::string body = R"({"prompt": [1], "max_tokens": 5, "stream": true})";
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  const HttpReply head = client.read_head();
  CHECK(head.status == 200);
  CHECK_FALSE(head.headers.contains("transfer-encoding"));
  CHECK(head.headers.at("connection") == "close");
  CHECK(client.ended());
}

TEST_CASE("requests that were sent ahead are answered in turn") {
  LiveServer server(scripted());
  HttpClient client(server.port());
  const std::string body = R"({"prompt": [1], "max_tokens": 200})";
  for (int i = 0; i < 5; ++i)
    client.send("POST", "/v1/completions", body, {{"X-Request-Id", std::to_string(i)}});
  client.send("GET", "/health");
  for (int i = 0; i < 5; ++i)
    CHECK(client.read().headers.at("x-request-id") == std::to_string(i));
  CHECK(client.read().status == 200);
}

TEST_CASE("a body that waits for leave gets it") {
  LiveServer server(scripted());
  HttpClient client(server.port());
  const std::string body = R"({"prompt": [1], "max_tokens": 1})";
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
              "Content-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  CHECK(client.read_head().status == 100);
  client.send(body);
  CHECK(client.read().status == 200);
}
