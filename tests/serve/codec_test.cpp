// How JSON becomes a Request: what is taken, and what is refused by name.
#include "apps/server/fields.hpp"
#include "apps/server/openai_request.hpp"
#include "apps/server/router.hpp"

#include <ctime>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::apps::serve;

namespace {

constexpr int vocabulary = 1000;

ApiResult<Asked> read(Api api, const std::string& body) {
  const auto object = parse_object(body);
  if (!object)
    return refuse(object.error());
  Request defaults;
  defaults.verify = VerifyRule::match;
  return read_request(api, *object, defaults, vocabulary);
}

ApiResult<Asked> completion(const std::string& more) {
  return read(Api::completions, R"({"prompt": "x")" + (more.empty() ? "" : ", " + more) + "}");
}

ApiResult<Asked> chat(const std::string& more) {
  return read(Api::chat, R"({"messages": [{"role": "user", "content": "x"}])" +
                             (more.empty() ? "" : ", " + more) + "}");
}

void check_refused(const ApiResult<Asked>& asked, const std::string& param) {
  CAPTURE(param);
  REQUIRE(!asked);
  CHECK(asked.error().status == 400);
  CHECK(asked.error().param == param);
  CHECK(asked.error().message.find(param.substr(0, param.find('['))) != std::string::npos);
}

} // namespace

TEST_CASE("a completion takes every field that the engine knows") {
  const auto asked = completion(R"("model": "m", "max_tokens": 7, "temperature": 0.5, "top_p": 0.9,
    "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": -1,
    "frequency_penalty": 2, "seed": 18446744073709551615, "stop": ["a", "b"], "n": 3, "echo": true,
    "logprobs": 5, "logit_bias": {"7": -100, "8": 1.5}, "stream": true, "ignore_eos": true,
    "allowed_token_ids": [5, 6], "min_tokens": 2, "skip_special_tokens": false,
    "stream_options": {"include_usage": true}, "user": "somebody", "cache_salt": "mine", "priority": -3, "no such field": [1, {}],
    "speculation": {"mode": "overlap", "window": 4, "verify": "coupled", "draft": "suffix"})");
  INFO((asked ? "" : asked.error().message));
  REQUIRE(asked);
  const Request& r = asked->request;
  CHECK(asked->model == "m");
  CHECK(asked->n == 3);
  CHECK(asked->echo);
  CHECK(asked->stream);
  CHECK(asked->include_usage);
  CHECK(std::get<std::string>(asked->prompts.at(0)) == "x");
  CHECK(r.max_tokens == 7);
  CHECK(r.client == "somebody");
  CHECK(r.cache_salt == "mine");
  CHECK(r.priority == -3);
  CHECK(r.ignore_eos);
  CHECK(r.min_tokens == 2);
  CHECK_FALSE(r.skip_special_tokens);
  CHECK(r.sampling.allowed_token_ids == std::vector<TokenId>{5, 6});
  CHECK(r.logprobs);
  CHECK(r.prompt_logprobs);
  CHECK(r.top_logprobs == 5);
  CHECK(r.stop == std::vector<std::string>{"a", "b"});
  CHECK(r.sampling.temperature == 0.5f);
  CHECK(r.sampling.top_p == 0.9f);
  CHECK(r.sampling.top_k == 40);
  CHECK(r.sampling.min_p == 0.1f);
  CHECK(r.sampling.repetition_penalty == 1.1f);
  CHECK(r.sampling.presence_penalty == -1.0f);
  CHECK(r.sampling.frequency_penalty == 2.0f);
  CHECK(r.sampling.seed == 18446744073709551615u);
  CHECK(r.sampling.logit_bias == std::vector<std::pair<TokenId, float>>{{7, -100.0f}, {8, 1.5f}});
  CHECK(r.speculation == SpeculationMode::overlap);
  CHECK(r.drafter == "suffix");
  CHECK(r.window == 4);
  CHECK(r.verify == VerifyRule::coupled);
}

TEST_CASE("what a body does not say, or says with null, is the default") {
  for (const char* more : {"", R"("max_tokens": null, "n": null, "stop": null, "seed": null,
      "temperature": null, "stream_options": null, "speculation": null, "best_of": null)"}) {
    const auto asked = completion(more);
    REQUIRE(asked);
    CHECK(asked->request.max_tokens == 16);
    CHECK(asked->n == 1);
    CHECK_FALSE(asked->stream);
    CHECK_FALSE(asked->request.logprobs);
    CHECK_FALSE(asked->request.sampling.temperature);
    CHECK_FALSE(asked->request.sampling.seed);
    CHECK(asked->request.verify == VerifyRule::match);
  }
  CHECK_FALSE(chat("").value().request.max_tokens);
}

TEST_CASE("a prompt is a text, texts, ids or lists of ids") {
  const auto prompts = [](const std::string& prompt) {
    return read(Api::completions, R"({"prompt": )" + prompt + "}").value().prompts;
  };
  CHECK(prompts(R"("")") == std::vector<Prompt>{""});
  CHECK(prompts(R"(["a", "b"])") == std::vector<Prompt>{"a", "b"});
  CHECK(prompts("[1, 2]") == std::vector<Prompt>{std::vector<TokenId>{1, 2}});
  CHECK(prompts("[[1], [2, 999]]") ==
        std::vector<Prompt>{std::vector<TokenId>{1}, std::vector<TokenId>{2, 999}});
  for (const char* wrong : {"7", "{}", "[]", "true", "[[]]", "[1, \"a\"]", "[1.5]", "[-1]",
                            "[1000]", "[1e3]", "[99999999999]", "[18446744073709551615]",
                            "[\"a\", 1]", "[[1], \"a\"]", "[null]", "[[1], [1000]]", "null"}) {
    CAPTURE(wrong);
    const auto asked = read(Api::completions, std::string(R"({"prompt": )") + wrong + "}");
    REQUIRE(!asked);
    CHECK(asked.error().param.starts_with("prompt"));
  }
  CHECK(read(Api::completions, "{}").error().param == "prompt");
}

TEST_CASE("values of another type or out of range are refused by name") {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"model", "7"},
      {"max_tokens", "-1"},
      {"max_tokens", "1.5"},
      {"max_tokens", "\"7\""},
      {"max_tokens", "99999999999"},
      {"temperature", "-0.1"},
      {"temperature", "101"},
      {"temperature", "\"hot\""},
      {"temperature", "1e999"},
      {"top_p", "0"},
      {"top_p", "1.01"},
      {"top_k", "-2"},
      {"top_k", "1.5"},
      {"min_p", "2"},
      {"presence_penalty", "2.1"},
      {"frequency_penalty", "[]"},
      {"repetition_penalty", "0"},
      {"seed", "1.5"},
      {"seed", "\"7\""},
      {"n", "0"},
      {"n", "129"},
      {"n", "true"},
      {"stop", "7"},
      {"stop", "\"\""},
      {"stop", "[\"a\", 7]"},
      {"stream", "1"},
      {"echo", "\"yes\""},
      {"logprobs", "21"},
      {"logprobs", "true"},
      {"logit_bias", "[]"},
      {"allowed_token_ids", "[]"},
      {"allowed_token_ids", "[1000]"},
      {"min_tokens", "-1"},
      {"min_tokens", "17"},
      {"skip_special_tokens", "0"},
      {"cache_salt", "\"\""},
      {"cache_salt", "7"},
      {"logit_bias", R"({"x": 1})"},
      {"logit_bias", R"({"1000": 1})"},
      {"logit_bias", R"({"-1": 1})"},
      {"logit_bias.7", R"({"7": 101})"},
      {"logit_bias.7", R"({"7": "more"})"},
      {"speculation", "true"},
      {"speculation.mode", R"({"mode": "fast"})"},
      {"speculation.mode", R"({"mode": 1})"},
      {"speculation.window", R"({"window": 0})"},
      {"speculation.window", R"({"window": 33})"},
      {"speculation.verify", R"({"verify": "no"})"},
      {"speculation.draft", R"({"draft": 3})"},
      {"speculation.depth", R"({"depth": 3})"},
  };
  for (const auto& [name, given] : cases) {
    const char* value = given;
    CAPTURE(value);
    const std::string field = std::string(name).substr(0, std::string(name).find('.'));
    check_refused(completion("\"" + field + "\": " + value), name);
  }
  check_refused(completion(R"("stream_options": {})"), "stream_options");
  check_refused(completion(R"("stream": true, "stream_options": {"include_usage": 1})"),
                "stream_options.include_usage");
  check_refused(read(Api::completions, R"({"prompt": ["a", "b"], "n": 65})"), "n");
}

TEST_CASE("known fields that are not supported are refused unless they change nothing") {
  const std::vector<std::pair<const char*, const char*>> refused{
      {"tool_choice", R"("required")"},
      {"functions", "[{}]"},
      {"modalities", R"(["text", "audio"])"},
      {"audio", R"({"voice": "x"})"},
      {"best_of", "2"},
      {"suffix", R"("end")"},
      {"use_beam_search", "true"}};
  for (const auto& [name, value] : refused) {
    check_refused(completion("\"" + std::string(name) + "\": " + value), name);
    check_refused(chat("\"" + std::string(name) + "\": " + value), name);
  }
  for (const char* harmless :
       {R"("tools": [])", R"("tool_choice": "none")", R"("response_format": {"type": "text"})",
        R"("modalities": ["text"])", R"("best_of": 1)", R"("best_of": 3, "n": 3)",
        R"("suffix": "")", R"("use_beam_search": false)", R"("min_tokens": 0)"}) {
    CAPTURE(harmless);
    CHECK(completion(harmless));
    CHECK(chat(harmless));
  }
}

TEST_CASE("a form is read by each of its names, and a second one is refused") {
  using Kind = Constraint::Kind;
  const auto form = [](const std::string& fields) {
    const auto asked = completion(fields);
    REQUIRE(asked);
    REQUIRE(asked->request.constraint);
    return *asked->request.constraint;
  };
  CHECK(form(R"("response_format": {"type": "json_object"})").kind == Kind::json);
  CHECK(form(R"("structured_outputs": {"json_object": true})").kind == Kind::json);
  for (const char* schema :
       {R"("response_format": {"type": "json_schema", "json_schema":
             {"name": "x", "strict": true, "schema": {"type":"array"}}})",
        R"("structured_outputs": {"json": {"type":"array"}})", R"("guided_json": {"type":"array"})",
        R"("guided_json": "{\"type\":\"array\"}")", R"("json_schema": {"type":"array"})"}) {
    CAPTURE(schema);
    CHECK(form(schema).kind == Kind::json_schema);
    CHECK(form(schema).text == R"({"type":"array"})");
  }
  CHECK(form(R"("structured_outputs": {"json": {}, "disable_any_whitespace": false})")
            .any_whitespace);
  CHECK(!form(R"("structured_outputs": {"json": {}, "disable_any_whitespace": true})")
             .any_whitespace);
  for (const char* regex : {R"("structured_outputs": {"regex": "a+"})", R"("guided_regex": "a+")",
                            R"("regex": "a+")"}) {
    CHECK(form(regex).kind == Kind::regex);
    CHECK(form(regex).text == "a+");
  }
  for (const char* choice :
       {R"("structured_outputs": {"choice": ["a", "b"]})", R"("guided_choice": ["a", "b"])"}) {
    CHECK(form(choice).kind == Kind::choice);
    CHECK(form(choice).choices == std::vector<std::string>{"a", "b"});
  }
  for (const char* grammar : {R"("structured_outputs": {"grammar": "root ::= \"a\""})",
                              R"("guided_grammar": "root ::= \"a\"")",
                              R"("grammar": "root ::= \"a\"")", R"("ebnf": "root ::= \"a\"")"})
    CHECK(form(grammar).kind == Kind::grammar);
  CHECK(form(R"("response_format": {"type": "structural_tag", "format": {}})").kind ==
        Kind::structural_tag);
  CHECK(!completion(R"("response_format": {"type": "text"})")->request.constraint);
  CHECK(!completion(R"("grammar": "", "guided_json": null)")->request.constraint);
  check_refused(completion(R"("regex": "a", "grammar": "root ::= x")"), "grammar");
  check_refused(completion(R"("guided_choice": ["a", 1])"), "guided_choice");
  check_refused(completion(R"("response_format": {"type": "yaml"})"), "response_format.type");
  check_refused(completion(R"("response_format": {"type": "json_schema"})"),
                "response_format.json_schema");
  check_refused(completion(R"("structured_outputs": {"json": 7})"), "structured_outputs.json");
  for (const char* other :
       {R"({"regex": "a", "disable_any_whitespace": true})", R"({"disable_any_whitespace": true})"})
    check_refused(completion(R"("structured_outputs": )" + std::string(other)),
                  "structured_outputs.disable_any_whitespace");
  check_refused(completion(R"("structured_outputs": {"whitespace_pattern": " "})"),
                "structured_outputs.whitespace_pattern");
}

TEST_CASE("a conversation is read from strings and from parts of text") {
  const auto asked = read(Api::chat, R"({"messages": [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "How "}, {"type": "text", "text": "so?"}],
     "name": "Ann", "refusal": null},
    {"role": "assistant", "content": "Well."}], "max_tokens": 3, "max_completion_tokens": 5,
    "logprobs": true, "top_logprobs": 2})");
  REQUIRE(asked);
  const auto& messages = asked->messages;
  REQUIRE(messages.size() == 3);
  CHECK(messages[0].role == "system");
  CHECK(messages[0].content == "Be brief.");
  CHECK(messages[1].content == "How so?");
  CHECK(messages[1].fields == TemplateVariables{{"name", "\"Ann\""}});
  CHECK(messages[2].role == "assistant");
  CHECK(asked->request.max_tokens == 5);
  CHECK(asked->request.top_logprobs == 2);
  CHECK(asked->choices() == 1);

  const auto refused = [](const std::string& messages_json, const std::string& param) {
    check_refused(read(Api::chat, R"({"messages": )" + messages_json + "}"), param);
  };
  refused("[]", "messages");
  refused("\"hello\"", "messages");
  refused("[7]", "messages[0]");
  refused(R"([{"role": "user"}])", "messages[0].content");
  refused(R"([{"role": "user", "content": null}])", "messages[0].content");
  refused(R"([{"role": "clown", "content": "x"}])", "messages[0].role");
  refused(R"([{"content": "x"}])", "messages[0].role");
  refused(R"([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": []}])",
          "messages[1].content");
  refused(R"([{"role": "user", "content": "x", "images": ["x"]}])", "messages[0].images");
  refused(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
          "messages[0].content[0].type");
  refused(R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text");
  refused(R"([{"role": "user", "content": [7]}])", "messages[0].content[0]");
  check_refused(chat(R"("top_logprobs": 2)"), "top_logprobs");
  check_refused(chat(R"("max_tokens": 0)"), "max_tokens");
}

TEST_CASE("what is said in many items is not copied for each of them") {
  const auto seconds = [](const std::string& first) {
    const auto item = [](const std::string& text) {
      return R"(,{"role": "assistant", "content": ")" + text + "\"}";
    };
    std::string body = R"({"input": [)" + first + item(std::string(8 << 20, 'x'));
    for (int i = 0; i < 4000; ++i)
      body += item("");
    const std::clock_t begun = std::clock();
    REQUIRE(read(Api::responses, body + "]}"));
    return double(std::clock() - begun) / CLOCKS_PER_SEC;
  };
  const double apart = seconds(R"({"role": "user", "content": "x"})");
  const double joined =
      seconds(R"({"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"})");
  CHECK(joined < 4 * apart + 0.05);
}

TEST_CASE("a body that is no JSON object is refused") {
  const std::string deep(100, '[');
  for (const std::string& body :
       {std::string(""), std::string("x"), std::string("[]"), std::string("{\"a\": }"),
        std::string("{\"prompt\": \"\xff\"}"), std::string("{} {}"), std::string("\"text\""), deep,
        std::string("{\"prompt\": \"\\ud800\"}")}) {
    const auto object = parse_object(body);
    REQUIRE(!object);
    CHECK(object.error().status == 400);
  }
}

TEST_CASE("a target becomes a path") {
  CHECK(decode_target("/v1/models") == "/v1/models");
  CHECK(decode_target("/v1/models/a%2Fb?x=%41") == "/v1/models/a/b");
  CHECK(decode_target("http://host:80/health") == "/health");
  for (const char* wrong : {"", "*", "v1", "/%", "/%2", "/%zz", "/%00", "/%0a", "/%-1"}) {
    CAPTURE(wrong);
    CHECK(decode_target(wrong).empty());
  }
}
