// /v1/responses through real HTTP: the conversation that a request means, and what comes back.
#include "apps/server/response_items.hpp"
#include "apps/server/scored_reader.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::testing;
namespace json = boost::json;
namespace serve = paceline::apps::serve;

namespace {

constexpr const char* responses_path = "/v1/responses";

/// Writes all that a template can see, in Hermes' form.
constexpr const char* transparent =
    "{{ tools | tojson if tools }}{{ reasoning_effort if reasoning_effort }}"
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{{ '(' ~ m.reasoning_content ~ ')' if m.reasoning_content }}"
    "{{ '#' ~ m.tool_call_id if m.tool_call_id }}"
    "{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{{ c.id }}{% endfor %};{% endfor %}";
constexpr const char* thinking_aloud = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"
                                       "{% if false %}</think>{% endif %}";

class RespondingModel {
public:
  explicit RespondingModel(const std::string& source) {
    EngineOptions options = demo_pair();
    options.chat_template = folder_.write("chat_template.jinja", source);
    server_.emplace(std::move(options));
  }
  json::object ask(const json::object& body) const { return server_->post(responses_path, body); }
  std::vector<json::object> stream(json::object body) const {
    body["stream"] = true;
    HttpClient client(server_->port());
    client.send("POST", responses_path, json::serialize(body));
    REQUIRE(client.read_head().status == 200);
    std::vector<json::object> all; // No [DONE] comes behind the last.
    while (const auto event = client.read_event())
      all.push_back(HttpReply{.status = 200, .headers = {}, .body = *event}.json());
    return all;
  }
  /// Returns the field that a refusal names.
  std::string refusal(const json::object& body) const {
    const HttpReply reply = server_->ask("POST", responses_path, json::serialize(body));
    INFO(reply.body);
    CHECK(reply.status == 400);
    return std::string(reply.json().at("error").at("param").as_string());
  }
  json::value tokens(const json::object& body) const {
    return ask(body).at("usage").at("input_tokens");
  }
  /// Counts the tokens of a text, as those of a prompt.
  json::value counted(const std::string& text) const {
    const json::object body{{"prompt", text}, {"add_special_tokens", false}};
    return server_->post("/tokenize", body).at("count");
  }
  const LiveServer& server() const { return *server_; }

private:
  TemporaryFolder folder_;
  std::optional<LiveServer> server_;
};

json::array flat_functions() {
  return json::parse(R"([{"type": "function", "name": "paint", "parameters": {
      "type": "object", "properties": {"color": {"enum": ["red", "blue"]}}, "required": ["color"]}},
    {"type": "function", "name": "rest"}])")
      .as_array();
}

/// What the official client makes of a stream, which checks what it checks.
struct StreamedResponse {
  json::object response; ///< Of the last event.
  json::array items;     ///< Of output_item.done.

  explicit StreamedResponse(const std::vector<json::object>& events) {
    REQUIRE(events.size() > 2);
    CHECK(events[0].at("type") == "response.created");
    CHECK(events[1].at("type") == "response.in_progress");
    for (std::size_t i = 0; i < events.size(); ++i) {
      CHECK(events[i].at("sequence_number") == i);
      take(events[i]);
    }
    response = events.back().at("response").as_object();
  }

private:
  void take(const json::object& event) {
    const json::string& type = event.at("type").as_string();
    const auto* index = event.if_contains("output_index");
    if (type == "response.output_item.added") {
      CHECK(*index == items.size());
      item = event.at("item").as_object();
      text.clear();
      scores.clear();
    } else if (type.ends_with(".delta")) {
      CHECK(event.at("item_id") == item.at("id"));
      CHECK(*index == items.size());
      text += event.at("delta").as_string();
      if (type == "response.output_text.delta")
        for (const json::value& score : event.at("logprobs").as_array())
          scores.push_back(score);
    } else if (type.ends_with("_text.done")) {
      CHECK(event.at("text").as_string() == text);
      if (type == "response.output_text.done")
        CHECK(event.at("logprobs") == scores);
    } else if (type == "response.function_call_arguments.done") {
      CHECK(event.at("arguments").as_string() == text);
      CHECK(event.at("name") == item.at("name"));
    } else if (type == "response.output_item.done") {
      const json::object& done = event.at("item").as_object();
      for (const char* same : {"id", "type"})
        CHECK(done.at(same) == item.at(same));
      if (done.contains("call_id"))
        CHECK(done.at("call_id") == item.at("call_id"));
      items.push_back(done);
    }
  }

  json::object item; ///< The item under way, and its text so far.
  std::string text;
  json::array scores; ///< Those of its text.
};

/// Leaves out what differs from request to request.
json::array items_without_ids(json::array items) {
  for (json::value& item : items)
    for (const char* name : {"id", "call_id"})
      item.as_object().erase(name);
  return items;
}

} // namespace

TEST_CASE("a response is what a chat with the same seed answers, whole and streamed") {
  const RespondingModel model(transparent);
  const json::object body{{"input", "Sort a list."}, {"max_output_tokens", 24}, {"seed", 3}};
  const json::object whole = model.ask(body);
  const json::object chat = model.server().post(
      "/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "Sort a list."}}}},
                               {"max_tokens", 24},
                               {"seed", 3}});
  CHECK(whole.at("object") == "response");
  CHECK(whole.at("id").as_string().starts_with("resp_"));
  CHECK(whole.at("status") == "incomplete");
  CHECK(whole.at("incomplete_details").at("reason") == "max_output_tokens");
  CHECK(whole.at("store") == false);
  CHECK(whole.at("max_output_tokens") == 24);
  const json::object& item = whole.at("output").at(0).as_object();
  CHECK(item.at("type") == "message");
  CHECK(item.at("status") == "incomplete");
  CHECK(item.at("content").at(0).at("text") ==
        chat.at("choices").at(0).at("message").at("content"));
  CHECK(whole.at("usage").at("input_tokens") == chat.at("usage").at("prompt_tokens"));
  CHECK(whole.at("usage").at("output_tokens") == 24);
  const auto events = model.stream(body);
  const StreamedResponse parts(events);
  CHECK(events.back().at("type") == "response.incomplete");
  CHECK(events.size() > 8);
  CHECK(items_without_ids(parts.items) == items_without_ids(whole.at("output").as_array()));
  CHECK(parts.response.at("output") == parts.items);
  CHECK(parts.response.at("usage").at("output_tokens") == 24);
}

TEST_CASE("the input's items are the conversation that they mean") {
  const RespondingModel model(transparent);
  const auto conversation = [&](const char* input, const char* instructions = nullptr) {
    json::object body{{"input", json::parse(input)}, {"max_output_tokens", 1}};
    if (instructions)
      body["instructions"] = instructions;
    return model.tokens(body);
  };
  CHECK(conversation(R"("Hi.")", "Be brief.") == model.counted("system:Be brief.;user:Hi.;"));
  CHECK(conversation(R"([{"role": "developer", "content": "In C."},
                         {"type": "message", "role": "user",
                          "content": [{"type": "input_text", "text": "Hi"},
                                      {"type": "input_text", "text": "."}]}])",
                     "Be brief.") == model.counted("system:Be brief.\n\nIn C.;user:Hi.;"));
  const std::string call =
      "<tool_call>\n{\"name\": \"paint\", \"arguments\": {\"color\": \"red\"}}\n"
      "</tool_call>c1";
  CHECK(conversation(R"([{"role": "user", "content": "q"},
      {"type": "reasoning", "id": "rs_1", "summary": [],
       "content": [{"type": "reasoning_text", "text": "Well."}]},
      {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
       "content": [{"type": "output_text", "text": "I paint.", "annotations": []}]},
      {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "paint",
       "arguments": "{\"color\": \"red\"}"},
      {"type": "function_call", "call_id": "c2", "name": "rest", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c1", "output": "done"},
      {"type": "function_call_output", "call_id": "c2",
       "output": [{"type": "input_text", "text": "done, too"}]},
      {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "no"}],
       "encrypted_content": "x"},
      {"role": "assistant", "content": "Red."}, {"role": "assistant", "content": "Yes."}])") ==
        model.counted("user:q;assistant:I paint.(Well.)" + call +
                      "<tool_call>\n{\"name\": \"rest\", \"arguments\": {}}\n</tool_call>c2;"
                      "tool:done#c1;tool:done, too#c2;assistant:Red.;assistant:Yes.;"));
  CHECK(model.tokens({{"input", "q"},
                      {"reasoning", {{"effort", "low"}, {"summary", "auto"}}},
                      {"max_output_tokens", 1}}) == model.counted("lowuser:q;"));
}

TEST_CASE("a function that must be called is an item, whole and streamed") {
  const RespondingModel model(transparent);
  for (int seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    json::object body{{"input", "Paint."},
                      {"tools", flat_functions()},
                      {"tool_choice", "required"},
                      {"seed", seed},
                      {"temperature", 1},
                      {"parallel_tool_calls", false},
                      {"store", false},
                      {"include", json::array{"reasoning.encrypted_content"}}};
    const json::object whole = model.ask(body);
    CHECK(whole.at("status") == "completed");
    REQUIRE(whole.at("output").as_array().size() == 1);
    const json::object& call = whole.at("output").at(0).as_object();
    CHECK(call.at("type") == "function_call");
    CHECK(call.at("status") == "completed");
    CHECK(call.at("call_id").as_string().starts_with("call_"));
    CHECK((call.at("name") == "paint" || call.at("name") == "rest"));
    CHECK(json::parse(std::string(call.at("arguments").as_string())).is_object());
    CHECK(whole.at("tools") == flat_functions());
    const auto events = model.stream(body);
    CHECK(events.back().at("type") == "response.completed");
    CHECK(items_without_ids(StreamedResponse(events).items) ==
          items_without_ids(whole.at("output").as_array()));
  }
  json::object named{{"input", "Paint."},
                     {"tools", flat_functions()},
                     {"tool_choice", {{"type", "function"}, {"name", "rest"}}}};
  CHECK(model.ask(named).at("output").at(0).at("name") == "rest");
  named["tool_choice"] = "none";
  named["max_output_tokens"] = 2;
  CHECK(model.ask(named).at("output").at(0).at("type") == "message");
  // The template is shown functions as chats have them.
  CHECK(model.tokens({{"input", "q"},
                      {"tools", json::array{flat_functions()[1]}},
                      {"max_output_tokens", 1}}) ==
        model.counted(R"([{"type": "function", "function": {"name": "rest"}}]user:q;)"));
}

TEST_CASE("a form that text.format asks for holds the answer") {
  const RespondingModel model(transparent);
  const json::object schema{{"enum", {"yes", "no"}}};
  const json::object response = model.ask(
      {{"input", "q"},
       {"text", {{"format", {{"type", "json_schema"}, {"name", "x"}, {"schema", schema}}}}}});
  const json::value& said = response.at("output").at(0).at("content").at(0).at("text");
  CHECK((said == "\"yes\"" || said == "\"no\""));
  CHECK(response.at("text").at("format").at("schema") == schema);
}

TEST_CASE("reasoning is an item of its own, which is counted") {
  const RespondingModel model(thinking_aloud);
  const json::object body{{"input", "q"}, {"max_output_tokens", 24}, {"seed", 5}};
  const json::object whole = model.ask(body);
  const json::object& item = whole.at("output").at(0).as_object();
  CHECK(item.at("type") == "reasoning");
  CHECK(item.at("summary").as_array().empty());
  CHECK(item.at("content").at(0).at("type") == "reasoning_text");
  CHECK(whole.at("usage").at("output_tokens_details").at("reasoning_tokens").to_number<int>() > 10);
  CHECK(items_without_ids(StreamedResponse(model.stream(body)).items) ==
        items_without_ids(whole.at("output").as_array()));
}

TEST_CASE("a response that cannot go on tells so in its stream, with what there was") {
  serve::Settings settings;
  settings.request_timeout = std::chrono::seconds(2);
  const LiveServer server(scripted("sim:10ms"), settings);
  HttpClient client(server.port());
  client.send("POST", responses_path,
              R"({"input": "q", "max_output_tokens": 60000, "stream": true})");
  REQUIRE(client.read_head().status == 200);
  std::string last;
  for (auto event = client.read_event(); event; event = client.read_event())
    last = *event;
  const json::object failed = json::parse(last).as_object();
  CHECK(failed.at("type") == "response.failed");
  CHECK(failed.at("response").at("status") == "failed");
  CHECK(failed.at("response").at("error").at("code") == "server_error");
  CHECK(!failed.at("response").at("output").as_array().empty());
}

TEST_CASE("a response's text has the log-probabilities of a chat's, whole and streamed") {
  const RespondingModel model(transparent);
  json::object body{{"input", "Sort a list."}, {"max_output_tokens", 24}, {"seed", 3}};
  CHECK(model.ask(body).at("output").at(0).at("content").at(0).at("logprobs").as_array().empty());
  body["include"] = json::array{"message.output_text.logprobs", "reasoning.encrypted_content"};
  body["top_logprobs"] = 2;
  const json::object whole = model.ask(body);
  CHECK(whole.at("top_logprobs") == 2);
  const json::object chat = model.server().post(
      "/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "Sort a list."}}}},
                               {"max_tokens", 24},
                               {"seed", 3},
                               {"logprobs", true},
                               {"top_logprobs", 2}});
  const json::array& scores =
      whole.at("output").at(0).at("content").at(0).at("logprobs").as_array();
  CHECK(scores == chat.at("choices").at(0).at("logprobs").at("content").as_array());
  CHECK(scores.size() == 24);
  const auto events = model.stream(body);
  const StreamedResponse parts(events);
  CHECK(items_without_ids(parts.items) == items_without_ids(whole.at("output").as_array()));
  for (const json::object& event : events)
    if (event.at("type") == "response.output_text.delta")
      for (const json::value& score : event.at("logprobs").as_array()) {
        CHECK(score.at("top_logprobs").as_array().size() == 2);
        CHECK_FALSE(score.as_object().contains("bytes"));
        CHECK_FALSE(score.at("top_logprobs").at(0).as_object().contains("bytes"));
      }
  body.erase("top_logprobs");
  const json::object bare = model.ask(body);
  const json::value& first = bare.at("output").at(0).at("content").at(0).at("logprobs").at(0);
  CHECK(first.at("top_logprobs").as_array().empty());
  CHECK(first.at("logprob") == scores[0].at("logprob"));
  body["speculation"] = {{"sources", true}};
  CHECK(model.refusal(body) == "speculation.sources");
  for (const json::object& event : model.stream(body))
    if (event.at("type") == "response.output_text.delta")
      for (const json::value& score : event.at("logprobs").as_array())
        CHECK(score.as_object().contains("source"));
}

TEST_CASE("reasoning and calls have no log-probabilities") {
  const RespondingModel thinks(thinking_aloud);
  json::object body{{"input", "q"},
                    {"max_output_tokens", 24},
                    {"seed", 5},
                    {"include", json::array{"message.output_text.logprobs"}}};
  const json::object whole = thinks.ask(body);
  CHECK(!whole.at("output").at(0).at("content").at(0).as_object().contains("logprobs"));
  CHECK(items_without_ids(StreamedResponse(thinks.stream(body)).items) ==
        items_without_ids(whole.at("output").as_array()));
}

TEST_CASE("each token of an answer's content is scored once, wherever the text is cut") {
  // The tokens' texts, and which of them are content.
  const std::pair<std::string, bool> tokens[] = {{"<think>", false},
                                                 {"\n", false},
                                                 {"Hm", false},
                                                 {".", false},
                                                 {"</", false},
                                                 {"think>", false},
                                                 {"\n\n", false},
                                                 {"I ", true},
                                                 {"<", true},
                                                 {"b", true},
                                                 {"> ", true},
                                                 {"", true},
                                                 {"\u00e9", true},
                                                 {".", true},
                                                 {"\n", false},
                                                 {"<tool", false},
                                                 {"_call>", false},
                                                 {"{\"name\": \"f\", ", false},
                                                 {"\"arguments\": {}", false},
                                                 {"}", false},
                                                 {"</tool_call>", false}};
  for (std::size_t size : {1u, 2u, 3u, 7u, 1000u}) {
    CAPTURE(size);
    serve::ScoredReader reader(apps::AnswerReader({.tools = text::tool_format("hermes"),
                                                   .functions = {{.name = "f", .parameters = "{}"}},
                                                   .reasoning = text::reasoning_format("think")},
                                                  "seed", false));
    std::string rest;
    json::array given;
    const auto take = [&](std::vector<serve::ScoredReader::Piece> pieces) {
      for (serve::ScoredReader::Piece& piece : pieces)
        for (json::value& score : piece.scores) {
          CHECK(piece.piece.kind == text::AnswerPiece::Kind::content);
          given.push_back(std::move(score));
        }
    };
    json::array wanted;
    for (std::size_t i = 0; i < std::size(tokens); ++i) {
      reader.token(tokens[i].first.size(), {{"token", i}});
      if (tokens[i].second)
        wanted.push_back(json::object{{"token", i}});
      rest += tokens[i].first;
      if (rest.size() >= size)
        take(reader.read(std::exchange(rest, {})));
    }
    take(reader.read(rest));
    take(reader.finish());
    CHECK(given == wanted);
  }
}

TEST_CASE("what a response cannot have is refused by name, before anything runs") {
  const RespondingModel model(transparent);
  const auto with = [](const char* field, json::value value) {
    json::object body{{"input", "q"}, {"max_output_tokens", 1}};
    body[field] = std::move(value);
    return body;
  };
  const auto item = [&](json::object one) { return with("input", json::array{std::move(one)}); };
  const auto scored = [&](int top) {
    json::object body = with("top_logprobs", top);
    body["include"] = json::array{"message.output_text.logprobs"};
    return body;
  };
  json::array many(4097, json::object{{"role", "user"}, {"content", "x"}});
  const std::pair<json::object, const char*> cases[] = {
      {with("store", true), "store"},
      {with("previous_response_id", "resp_1"), "previous_response_id"},
      {with("conversation", "conv_1"), "conversation"},
      {with("background", true), "background"},
      {with("truncation", "auto"), "truncation"},
      {with("include", json::array{"message.input_image.image_url"}), "include"},
      {with("include", 1), "include"},
      {with("messages", json::array{1}), "messages"},
      {with("prompt", {{"id", "pmpt_1"}}), "prompt"},
      {with("max_tokens", 5), "max_tokens"},
      {with("response_format", {{"type", "json_object"}}), "response_format"},
      {with("n", 2), "n"},
      {with("top_logprobs", 2), "top_logprobs"},
      {scored(21), "top_logprobs"},
      {with("logprobs", true), "logprobs"},
      {with("max_tool_calls", 2), "max_tool_calls"},
      {with("max_output_tokens", 0), "max_output_tokens"},
      {with("instructions", 1), "instructions"},
      {with("reasoning", {{"effort", 1}}), "reasoning.effort"},
      {with("text", {{"verbosity", "low"}}), "text.verbosity"},
      {with("text", {{"format", {{"type", "yaml"}}}}), "text.format.type"},
      {with("text", {{"format", {{"type", "json_schema"}}}}), "text.format.schema"},
      {with("tools", json::array{{{"type", "web_search"}}}), "tools[0].type"},
      {with("tools", json::array{{{"type", "function"}, {"name", "a b"}}}), "tools[0].name"},
      {with("tools", json::array{flat_functions()[0], flat_functions()[0]}), "tools[1].name"},
      {with("tool_choice", {{"type", "function"}, {"name", "rest"}}), "tool_choice.name"},
      {with("input", json::array()), "input"},
      {with("input", 1), "input"},
      {with("input", many), "input"},
      {with("input", json::array{1}), "input[0]"},
      {item({{"type", "item_reference"}, {"id", "x"}}), "input[0].type"},
      {item({{"role", "tool"}, {"content", "x"}}), "input[0].role"},
      {item({{"role", "user"}}), "input[0].content"},
      {item({{"role", "user"}, {"content", {{{"type", "input_image"}}}}}),
       "input[0].content[0].type"},
      {item({{"type", "function_call"}, {"call_id", "c"}, {"name", "f"}}), "input[0].arguments"},
      {item({{"type", "function_call_output"}, {"output", "x"}}), "input[0].call_id"},
      {item({{"type", "reasoning"}, {"summary", json::array()}}), "input"}};
  for (const auto& [body, param] : cases) {
    CAPTURE(json::serialize(body).substr(0, 200));
    CHECK(model.refusal(body) == param);
  }
  CHECK(model.server().ask("GET", "/v1/responses/resp_1").status == 404);
}

TEST_CASE("an answer's items come in its own order, and the last one tells that it was cut short") {
  const auto items = [](const char* said, bool complete) {
    serve::ResponseItems answer(
        apps::AnswerReader({.tools = text::tool_format("hermes"),
                            .functions = {{.name = "f", .parameters = "{}"}},
                            .reasoning = text::reasoning_format("think")},
                           "seed", false),
        "1");
    answer.read(said);
    answer.finish(complete);
    std::string shown;
    for (const json::value& item : answer.output()) {
      const auto* content = item.as_object().if_contains("content");
      const json::value& text = content ? content->at(0).at("text") : item.at("arguments");
      shown += std::string(item.at("type").as_string()) + "[" + std::string(text.as_string()) +
               "]" + (item.at("status") == "completed" ? ". " : "... ");
    }
    return shown;
  };
  const std::string calls =
      "<think>Well.</think>I look.<tool_call>{\"name\": \"f\", \"arguments\": "
      "{\"a\": 1}}</tool_call><tool_call>{\"name\": \"f\", \"arguments\": {";
  CHECK(items((calls + "}}</tool_call>").c_str(), true) ==
        "reasoning[Well.]. message[I look.]. function_call[{\"a\": 1}]. function_call[{}]. ");
  CHECK(items(calls.c_str(), false) ==
        "reasoning[Well.]. message[I look.]. function_call[{\"a\": 1}]. function_call[{]... ");
  CHECK(items("", true) == "message[]. ");
  CHECK(items("<think>We", false) == "reasoning[We]... ");
}
