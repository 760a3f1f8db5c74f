// What a message says beside its text reaches the template, and /tokenize counts what a chat
// counts.
#include "tests/serve/live_server.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>
#include <optional>

using namespace paceline;
using namespace paceline::testing;
namespace json = boost::json;

namespace {

/// A server whose model has this template.
class Templated {
public:
  explicit Templated(const std::string& source) {
    EngineOptions options = demo_pair(); // whose tokens are the text that they came from
    options.drafters = {"none"};
    options.chat_template = folder_.write("chat_template.jinja", source);
    server_.emplace(std::move(options));
  }

  HttpReply ask(const std::string& path, const std::string& body) const {
    return server_->ask("POST", path, body);
  }
  /// What the template makes of a conversation.
  std::string rendered(const std::string& body) const {
    const HttpReply reply = ask("/tokenize", body);
    INFO(reply.body);
    REQUIRE(reply.status == 200);
    const json::object ids{{"tokens", reply.json().at("tokens")}};
    return std::string(server_->post("/detokenize", ids).at("prompt").as_string());
  }
  int counted(json::object body) const {
    return server_->post("/tokenize", body).at("count").to_number<int>();
  }
  int asked(json::object body) const {
    body["max_tokens"] = 1;
    const json::object reply = server_->post("/v1/chat/completions", body);
    return reply.at("usage").at("prompt_tokens").to_number<int>();
  }
  LiveServer& server() { return *server_; }

private:
  TemporaryFolder folder_;
  std::optional<LiveServer> server_;
};

constexpr const char* thinking =
    R"({% for m in messages %}{{ m.role }}:)"
    R"({% if m.reasoning_content %}<{{ m.reasoning_content }}>{% endif %})"
    R"({{ m.content }}{{ '|' ~ m.name if m.name else '' }}{% endfor %})"
    R"({% if enable_thinking is defined %}|{{ enable_thinking }}{% endif %})"
    R"({% if add_generation_prompt %}[open]{% endif %})";

std::string param_of(const HttpReply& reply) {
  CHECK(reply.status == 400);
  return std::string(reply.json().at("error").at("param").as_string());
}

} // namespace

TEST_CASE("every field of a message reaches the template") {
  const Templated model(thinking);
  CHECK(model.rendered(R"({"messages": [{"role": "user", "content": "q", "name": "Ann"},
          {"role": "assistant", "content": "a", "reasoning_content": "because", "x": null}]})") ==
        "user:q|Annassistant:<because>a[open]");
}

TEST_CASE("a transcript with calls of tools is rendered, whatever values they have") {
  const Templated model(
      "{% for m in messages %}{{ m.role }}:{{ m.content }}"
      "{% if 'tool_calls' in m %}{% for c in m.tool_calls %}({{ c.function.name }} "
      "{{ c.function.arguments | tojson }}){% endfor %}{% endif %}"
      "{{ m.tool_call_id }};{% endfor %}");
  CHECK(model.rendered(
            R"({"messages": [{"role": "user", "content": "q"},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
                 "function": {"name": "f", "arguments": {"a": [1, 2.5, true, null, {"b": "\u00e9"}]}}}]},
                {"role": "tool", "tool_call_id": "1", "content": "r"},
                {"role": "assistant", "content": "b", "tool_calls": []}]})") ==
        "user:q;assistant:None(f {\"a\": [1, 2.5, true, null, {\"b\": \"\u00e9\"}]});"
        "tool:r1;assistant:b;");
}

TEST_CASE("what no model here reads is refused by name") {
  const Templated model(thinking);
  const std::string one = R"("messages": [{"role": "user", "content": "q")";
  const std::pair<std::string, std::string> cases[] = {
      {"{" + one + R"(}], "tools": [{"type": "function", "function": {"name": "f"}}]})", "tools"},
      {"{" + one + R"(, "images": ["aGk="]}]})", "messages[0].images"},
      {"{" + one + R"(, "audio": {"id": "1"}}]})", "messages[0].audio"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
       "messages[0].content[0].type"},
      {R"({"messages": [{"role": "clown", "content": ""}]})", "messages[0].role"},
      {R"({"messages": [{"role": "user", "content": null}]})", "messages[0].content"},
      {R"({"messages": [{"role": "assistant", "tool_calls": []}]})", "messages[0].content"}};
  for (const auto& [body, param] : cases) {
    CAPTURE(body);
    CHECK(param_of(model.ask("/v1/chat/completions", body)) == param);
    CHECK(param_of(model.ask("/tokenize", body)) == param);
  }
  CHECK(
      model
          .ask("/v1/chat/completions",
               "{" + one + R"(, "tool_calls": [], "audio": null}], "tools": [], "max_tokens": 1})")
          .status == 200);
}

TEST_CASE("a chat has as many tokens as /tokenize says") {
  const Templated model(thinking);
  const json::object user{{"role", "user"}, {"content", "q"}};
  const json::object answer{
      {"role", "assistant"}, {"content", "abc"}, {"reasoning_content", "because"}};
  const json::object alone{{"messages", {user}}};
  const auto with = [&](const char* name, json::value value) {
    json::object body{{"messages", {user, answer}}};
    body[name] = std::move(value);
    return body;
  };
  for (const json::object& body :
       {alone, with("chat_template_kwargs", {{"enable_thinking", false}}),
        with("continue_final_message", true), with("add_generation_prompt", false),
        with("add_special_tokens", true), with("tools", json::array())}) {
    CAPTURE(json::serialize(body));
    CHECK(model.counted(body) == model.asked(body));
  }
  CHECK(model.counted(with("continue_final_message", true)) <
        model.counted(with("continue_final_message", false)));
}

TEST_CASE("values of a conversation are bounded, and the error names the field") {
  const Templated model(thinking);
  std::string many = "[0";
  for (int i = 0; i < 200'000; ++i)
    many += ",0";
  many += "]";
  const auto message = [](const std::string& error) {
    return std::string(json::parse(error).at("error").at("message").as_string());
  };
  for (const char* path : {"/v1/chat/completions", "/tokenize"}) {
    const HttpReply field = model.ask(
        path, R"({"messages": [{"role": "user", "content": "q", "extra": )" + many + "}]}");
    CHECK(field.status == 400);
    CHECK(message(field.body).starts_with("messages[0].extra has too many values"));
    const HttpReply variable = model.ask(
        path, R"({"messages": [{"role": "user", "content": "q"}], "chat_template_kwargs": {"v": )" +
                  many + "}}");
    CHECK(variable.status == 400);
    CHECK(message(variable.body).starts_with("the variable v has too many values"));
  }
  const std::string deep(40, '[');
  CHECK(model
            .ask("/tokenize", R"({"messages": [{"role": "user", "content": "q", "extra": )" + deep +
                                  std::string(40, ']') + "}]}")
            .status == 200);
}

TEST_CASE("what a template refuses is told without a path of the server's") {
  const Templated model("{{ raise_exception('no') }}");
  const HttpReply reply =
      model.ask("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "q"}]})");
  CHECK(reply.status == 400);
  CHECK(reply.json().at("error").at("message").as_string().starts_with(
      "the chat template, line 1: the template refuses this conversation: no"));
  CHECK(reply.body.find('/') == std::string::npos);
}
