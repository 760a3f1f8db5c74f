// Calls of functions and reasoning through real HTTP: what a request asks for, and what comes back.
#include "apps/console/chat/answer_plan.hpp"
#include "apps/server/chat_answer.hpp"
#include "apps/server/tool_refusals.hpp"
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

/// Shows its model the functions, and calls in Hermes' form.
constexpr const char* hermes =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n"
    "</tool_call>{% endfor %};{% endfor %}{{ tools | tojson if tools }}"
    "{% if add_generation_prompt %}[open]{% endif %}";
constexpr const char* thinking = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"
                                 "{% if false %}</think>{% endif %}";

/// A server whose model has this template.
class Model {
public:
  explicit Model(const std::string& source, const apps::ParserNames& parsers = {},
                 apps::serve::Settings settings = {}) {
    EngineOptions options = demo_pair();
    options.chat_template = folder_.write("chat_template.jinja", source);
    settings.fleet.parsers = parsers;
    server_.emplace(std::move(options), settings);
  }
  json::object ask(const json::object& body) const {
    return server_->post("/v1/chat/completions", body);
  }
  json::object choice(const json::object& body) const {
    return ask(body).at("choices").at(0).as_object();
  }
  std::string refusal(const json::object& body, const char* path = "/v1/chat/completions") const {
    const HttpReply reply = server_->ask("POST", path, json::serialize(body));
    CHECK(reply.status == 400);
    INFO(reply.body);
    return std::string(reply.json().at("error").at("param").as_string());
  }
  int status(const json::object& body) const {
    return server_->ask("POST", "/v1/chat/completions", json::serialize(body)).status;
  }
  std::string rendered(const json::object& body) const {
    const json::object ids{{"tokens", server_->post("/tokenize", body).at("tokens")}};
    return std::string(server_->post("/detokenize", ids).at("prompt").as_string());
  }
  json::value counted(const json::object& body) const {
    return server_->post("/tokenize", body).at("count");
  }
  std::vector<json::object> stream(json::object body) const {
    body["stream"] = true;
    HttpClient client(server_->port());
    client.send("POST", "/v1/chat/completions", json::serialize(body));
    REQUIRE(client.read_head().status == 200);
    return client.read_events();
  }

private:
  TemporaryFolder folder_;
  std::optional<LiveServer> server_;
};

json::array functions() {
  return json::parse(R"([{"type": "function", "function": {"name": "paint", "parameters": {
      "type": "object", "properties": {"color": {"enum": ["red", "blue"]},
      "times": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["color"]}}},
    {"type": "function", "function": {"name": "rest"}}])")
      .as_array();
}

json::object body_of(json::value choice) {
  return {{"messages", {{{"role", "user"}, {"content", "Paint."}}}},
          {"tools", functions()},
          {"tool_choice", std::move(choice)},
          {"max_tokens", 160},
          {"temperature", 1}};
}

void check_call(const json::object& call) {
  CHECK(call.at("type") == "function");
  CHECK(call.at("id").as_string().starts_with("call_"));
  const json::object& function = call.at("function").as_object();
  const json::object arguments =
      json::parse(std::string(function.at("arguments").as_string())).as_object();
  if (function.at("name") == "rest") {
    CHECK(arguments.empty());
    return;
  }
  CHECK(function.at("name") == "paint");
  CHECK((arguments.at("color") == "red" || arguments.at("color") == "blue"));
  if (arguments.contains("times"))
    CHECK(arguments.at("times").to_number<int>() <= 9);
  CHECK(arguments.size() == (arguments.contains("times") ? 2u : 1u));
}

void check_calls(const json::array& calls, bool whole) {
  CHECK(!calls.empty());
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (whole || i + 1 < calls.size())
      check_call(calls[i].as_object());
}

/// What the official client makes of a stream: texts are appended, calls are told by their index.
/// Only a call's first part has more than arguments.
struct Streamed {
  json::object message;
  json::value finish_reason;
  std::size_t scored = 0;

  void take(const json::object& choice) {
    for (const auto& [name, value] : choice.at("delta").as_object())
      if (name != "tool_calls")
        append(message, name, value);
      else
        for (const json::value& call : value.as_array())
          take_call(call.as_object());
    if (!choice.at("finish_reason").is_null())
      finish_reason = choice.at("finish_reason");
    if (const auto* scores = choice.at("logprobs").if_object())
      scored += scores->at("content").as_array().size();
  }

private:
  static void append(json::object& to, std::string_view name, const json::value& value) {
    json::value& known = to[name];
    if (known.is_string() && value.is_string())
      known = std::string(known.get_string()) + std::string(value.get_string());
    else if (!value.is_null())
      known = value;
  }
  void take_call(const json::object& part) {
    json::value& list = message["tool_calls"];
    if (list.is_null())
      list.emplace_array();
    json::array& calls = list.get_array();
    const auto index = part.at("index").to_number<std::size_t>();
    REQUIRE(index <= calls.size());
    if (index == calls.size()) {
      CHECK(part.contains("id"));
      CHECK(part.at("function").as_object().contains("name"));
      calls.push_back(json::object{{"id", part.at("id")}, {"type", part.at("type")}});
      calls.back().as_object()["function"] = part.at("function");
      return;
    }
    CHECK(index + 1 == calls.size());
    CHECK(!part.contains("id"));
    append(calls.back().at("function").as_object(), "arguments",
           part.at("function").at("arguments"));
  }
};

Streamed streamed(const Model& model, const json::object& body, int choice = 0) {
  Streamed all;
  for (const json::object& event : model.stream(body))
    for (const json::value& one : event.at("choices").as_array())
      if (one.at("index") == choice)
        all.take(one.as_object());
  return all;
}

json::value without_ids(json::value calls) {
  for (json::value& call : calls.as_array())
    call.as_object().erase("id");
  return calls;
}

} // namespace

TEST_CASE("an answer that must call calls, with arguments that fit, whole and streamed") {
  const Model model(hermes);
  for (int seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    json::object body = body_of("required");
    body["seed"] = seed;
    body["parallel_tool_calls"] = seed % 2 == 0; // several go on until they are cut short
    const json::object whole = model.choice(body);
    const json::object& message = whole.at("message").as_object();
    const bool ended = whole.at("finish_reason") == "tool_calls";
    CHECK((ended || whole.at("finish_reason") == "length"));
    CHECK((ended || seed % 2 == 0));
    CHECK((message.at("content").is_null() || !ended)); // what was cut before a name is content
    check_calls(message.at("tool_calls").as_array(), ended);
    body["logprobs"] = true;
    const Streamed parts = streamed(model, body);
    CHECK(parts.finish_reason == whole.at("finish_reason"));
    CHECK(parts.message.at("content") == message.at("content"));
    CHECK(parts.message.at("role") == "assistant");
    CHECK(without_ids(parts.message.at("tool_calls")) == without_ids(message.at("tool_calls")));
    CHECK(parts.scored ==
          model.ask(body).at("usage").at("completion_tokens").to_number<std::size_t>());
  }
}

TEST_CASE("a function that is named is called once, and each choice has its own calls") {
  const Model model(hermes);
  json::object body = body_of({{"type", "function"}, {"function", {{"name", "paint"}}}});
  body["n"] = 2;
  body["seed"] = 3;
  const json::object reply = model.ask(body);
  for (int index = 0; index < 2; ++index) {
    const json::object& choice = reply.at("choices").at(std::size_t(index)).as_object();
    CHECK(choice.at("finish_reason") == "tool_calls");
    const json::array& calls = choice.at("message").at("tool_calls").as_array();
    REQUIRE(calls.size() == 1);
    CHECK(calls[0].at("function").at("name") == "paint");
    check_calls(calls, true);
    CHECK(without_ids(streamed(model, body, index).message.at("tool_calls")) == without_ids(calls));
  }
  CHECK(reply.at("choices").at(0).at("message").at("tool_calls").at(0).at("id") !=
        reply.at("choices").at(1).at("message").at("tool_calls").at(0).at("id"));
  json::object one = body_of("required");
  one["parallel_tool_calls"] = false;
  CHECK(model.choice(one).at("message").at("tool_calls").as_array().size() == 1);
}

TEST_CASE(
    "where calls are the model's choice it may just answer, and none are made if none may be") {
  const Model model(hermes);
  for (const char* choice : {"auto", "none"}) {
    json::object body = body_of(choice);
    body["temperature"] = 0;
    body["max_tokens"] = 20;
    const json::object whole = model.choice(body);
    CHECK(whole.at("message").at("content").is_string());
    CHECK(!whole.at("message").as_object().contains("tool_calls"));
    CHECK(whole.at("finish_reason") == "length");
    const Streamed parts = streamed(model, body);
    CHECK(parts.message.at("content") == whole.at("message").at("content"));
    CHECK((model.rendered(body).find("paint") != std::string::npos) ==
          (choice == std::string("auto")));
  }
}

TEST_CASE("a form and calls the model may make stand side by side") {
  const Model model(hermes);
  json::object body = body_of("auto");
  body["guided_choice"] = json::array{"yes", "no"};
  body["seed"] = 1;
  const json::object choice = model.choice(body);
  const json::object& message = choice.at("message").as_object();
  CHECK((message.contains("tool_calls") || message.at("content") == "yes" ||
         message.at("content") == "no"));
  body["tool_choice"] = "required";
  CHECK(model.refusal(body) == "guided_choice");
}

TEST_CASE("a transcript's calls have arguments as the template wants them") {
  const auto body = [](const char* arguments) {
    json::value call =
        json::parse(R"({"id": "1", "type": "function", "function": {"name": "paint"}})");
    call.at("function").as_object()["arguments"] = json::parse(arguments);
    return json::object{{"messages",
                         {{{"role", "user"}, {"content", "q"}},
                          {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                          {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "done"}}}},
                        {"max_tokens", 1}};
  };
  const json::object text = body(R"("{\"color\":  \"red\"}")");
  const json::object object = body(R"({"color": "red"})");
  const std::string called = "user:q;assistant:None<tool_call>\n{\"name\": \"paint\", "
                             "\"arguments\": {\"color\": \"red\"}}\n</tool_call>;tool:done;[open]";
  const Model objects(hermes);
  CHECK(objects.rendered(text) == called);
  CHECK(objects.rendered(object) == called);
  CHECK(objects.ask(text).at("usage").at("prompt_tokens") == objects.counted(text));
  const std::string loop = "{% for m in messages %}{% for c in m.tool_calls %}";
  const Model texts(loop + "{{ '' + c.function.arguments }}{% endfor %}{% endfor %}");
  CHECK(texts.rendered(text) == R"({"color":  "red"})");
  CHECK(texts.rendered(object) == R"({"color":"red"})");
  const Model either(loop + "{{ c.function.arguments if c.function.arguments is string else "
                            "c.function.arguments | tojson }}{% endfor %}{% endfor %}");
  CHECK(either.rendered(text) == R"({"color":  "red"})");
  CHECK(either.rendered(object) == R"({"color": "red"})");
  json::object said = text; // to a template that takes no null
  said.at("messages").at(1).as_object()["content"] = "";
  const Model texts_only("{% for m in messages %}{{ m.content + '|' }}{% for c in m.tool_calls %}"
                         "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}");
  CHECK(texts_only.rendered(said) == R"(q||{"color": "red"}done|)");
}

TEST_CASE("what a model thought reaches its template by the name that this asks for") {
  const auto rendered = [](const Model& model, const char* content) {
    json::value call = json::parse(
        R"({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}})");
    json::object said{{"role", "assistant"}, {"reasoning_content", "hm"}, {"content", content}};
    said["tool_calls"] = json::array{call};
    return model.rendered({{"messages", {{{"role", "user"}, {"content", "q"}}, said}}});
  };
  const std::string loop = "{% for message in messages %}{{ message.content }}";
  const Model other(loop + "({{ message.thinking }}){% endfor %}");
  CHECK(rendered(other, "") == "q()(hm)");
  CHECK(rendered(other, "a") == "q()a()"); // gpt-oss's template takes only one of them
  const Model both(loop + "({{ message.reasoning_content or message.thinking }}){% endfor %}");
  CHECK(rendered(both, "a") == "q()a(hm)");
}

TEST_CASE("tools that cannot be had are refused by name, before anything runs") {
  const Model model(hermes);
  const auto with = [](const char* field, json::value value) {
    json::object body = body_of("auto");
    body[field] = std::move(value);
    return body;
  };
  const auto function = [](json::object about) {
    return json::array{{{"type", "function"}, {"function", std::move(about)}}};
  };
  json::array many;
  for (int i = 0; i < 129; ++i)
    many.push_back({{"type", "function"}, {"function", {{"name", "f" + std::to_string(i)}}}});
  json::object bare = body_of("required");
  bare.erase("tools");
  const json::object strict{{"name", "f"},
                            {"strict", true},
                            {"parameters", {{"type", "object"}, {"not", json::object()}}}};
  json::object loose = strict;
  loose.erase("strict");
  const std::pair<json::object, const char*> cases[] = {
      {with("tools", "zz"), "tools"},
      {with("tools", json::array{1}), "tools[0]"},
      {with("tools", function({{"name", "a b"}})), "tools[0].function.name"},
      {with("tools", json::array{{{"type", "custom"}}}), "tools[0].type"},
      {with("tools", function({{"name", "f"}, {"parameters", "x"}})),
       "tools[0].function.parameters"},
      {with("tools", many), "tools"},
      {with("tools", json::array{functions()[0], functions()[0]}), "tools[1].function"},
      {with("tools", function(strict)), "tools"},
      {with("tool_choice", "any"), "tool_choice"},
      {with("tool_choice", json::object{{"type", "function"}, {"function", {{"name", "none"}}}}),
       "tool_choice.function"},
      {with("parallel_tool_calls", 1), "parallel_tool_calls"},
      {bare, "tool_choice"}};
  for (const auto& [body, param] : cases) {
    CAPTURE(json::serialize(body).substr(0, 300));
    CHECK(model.refusal(body) == param);
  }
  json::object answered = with("tools", function(loose));
  answered["max_tokens"] = 2;
  CHECK(model.ask(answered).contains("choices"));
  answered["tool_choice"] = "required";
  CHECK(model.refusal(answered) == "tools");
  CHECK(model.refusal({{"prompt", "x"}, {"tools", functions()}}, "/v1/completions") == "tools");
}

TEST_CASE("tools are refused where the template shows none, or asks for an unknown form of calls") {
  const Model blind("{% for m in messages %}{{ m.content }}{% endfor %}");
  CHECK(blind.refusal(body_of("auto")) == "tools");
  CHECK(blind.refusal(body_of("auto"), "/tokenize") == "tools");
  const Model unknown("{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}");
  CHECK(unknown.refusal(body_of("required")) == "tools");
  const Model told("{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}",
                   {.tools = "llama3_json", .reasoning = {}});
  const json::object choice = told.choice(body_of("required"));
  check_calls(choice.at("message").at("tool_calls").as_array(),
              choice.at("finish_reason") == "tool_calls");
}

TEST_CASE("reasoning comes apart from the content, whole and streamed, unless none is looked for") {
  json::object body = body_of("none");
  body["max_tokens"] = 24;
  body["seed"] = 5;
  const Model thinks(thinking);
  const json::object whole = thinks.choice(body).at("message").as_object();
  CHECK(whole.at("content") == "");
  const Streamed parts = streamed(thinks, body);
  CHECK(parts.message.at("reasoning_content") == whole.at("reasoning_content"));
  CHECK(parts.message.at("content") == "");
  const Model silent(thinking, {.tools = {}, .reasoning = "none"});
  const json::object plain = silent.choice(body).at("message").as_object();
  CHECK(!plain.contains("reasoning_content"));
  const std::string said(plain.at("content").as_string());
  const std::string thought(whole.at("reasoning_content").as_string());
  CHECK(!thought.empty());
  CHECK(said.find(thought) != std::string::npos);
}

TEST_CASE(
    "special tokens that open a call that must come end the prompt, and are read as the answer's") {
  namespace serve = apps::serve;
  serve::Asked asked;
  asked.api = serve::Api::chat;
  asked.tools.functions = {{.name = "paint"}, {.name = "rest"}};
  apps::ChatStyle style;
  style.shows_tools = true;
  style.special_opening = true;
  style.tools = text::tool_format("granite");
  CHECK(apps::forced_opening(style, asked.tools, asked.request).empty());
  asked.tools.choice = apps::Tools::Choice::required;
  CHECK(apps::forced_opening(style, asked.tools, asked.request) == "<|tool_call|>");
  CHECK(apps::plan_of(style, asked.tools, asked.request, false).opened);
  style.tools = text::tool_format("mistral");
  style.special_arguments = true;
  CHECK(serve::check_tools(style, asked)->param == "tool_choice");
  asked.tools.functions.pop_back();
  CHECK(!serve::check_tools(style, asked));
  const std::string opening = apps::forced_opening(style, asked.tools, asked.request);
  CHECK(opening == "[TOOL_CALLS]paint[ARGS]");
  const auto plan = apps::plan_of(style, asked.tools, asked.request, false);
  serve::ChatAnswer answer(apps::answer_reader(style, asked.tools, plan, opening, "seed"));
  const json::object message = answer.message("{}");
  const json::object& call = message.at("tool_calls").at(0).as_object();
  CHECK(call.at("id").as_string().size() == 9);
  CHECK(call.at("function").at("name") == "paint");
  CHECK(call.at("function").at("arguments") == "{}");
  style.tools = text::tool_format("openai");
  style.reasoning = text::reasoning_format("openai");
  style.special_reasoning = true;
  const std::string message_opening = apps::forced_opening(style, asked.tools, asked.request);
  CHECK(message_opening == "<|channel|>commentary to=functions.paint <|constrain|>json<|message|>");
  CHECK(apps::plan_of(style, asked.tools, asked.request, false).opened);
  serve::ChatAnswer called(apps::answer_reader(
      style, asked.tools, apps::plan_of(style, asked.tools, asked.request, false), message_opening,
      "seed"));
  CHECK(called.message("{}<|call|>").at("tool_calls").at(0).at("function").at("arguments") == "{}");
  asked.tools.choice = apps::Tools::Choice::automatic;
  CHECK(apps::forced_opening(style, asked.tools, asked.request).empty());
  CHECK(!constraints::form_of(apps::plan_of(style, asked.tools, asked.request, false))
             .value()); // calls could not come
  asked.tools.functions.clear();
  asked.request.constraint = Constraint{};
  CHECK(apps::forced_opening(style, asked.tools, asked.request) == "<|channel|>final<|message|>");
  asked.request.constraint.reset();
  asked.tools.functions = {{.name = "paint"}};
  asked.tools.choice = apps::Tools::Choice::required;
  style.tools = text::tool_format("gemma4"); // which no form can hold
  CHECK(serve::check_tools(style, asked)->param == "tool_choice");
  style.tools = text::tool_format("llama3_json"); // whose calls may lack the special token
  CHECK(apps::forced_opening(style, asked.tools, asked.request).empty());
}

TEST_CASE("functions count as memory of a request, for each of its choices") {
  apps::serve::Settings settings;
  settings.max_request_memory = std::size_t(6) << 20;
  const Model model("{{ 'T' if tools }}{% for m in messages %}{{ m.content }}{% endfor %}",
                    {.tools = "llama3_json"}, settings); // whose calls have no form here
  const std::string text(200'000, 'x');
  json::object body = body_of("auto");
  body["tools"] =
      json::array{{{"type", "function"},
                   {"function",
                    {{"name", "f"},
                     {"parameters",
                      {{"type", "object"},
                       {"properties", {{"a", {{"type", "string"}, {"description", text}}}}}}}}}}};
  body["max_tokens"] = 4;
  CHECK(model.status(body) == 200);
  body["n"] = 64;
  CHECK(model.status(body) == 503);
}
