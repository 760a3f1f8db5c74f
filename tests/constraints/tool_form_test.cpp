// Forms of answers that call functions: what each family's form holds an answer to, and that the
// parser reads whatever the form allows.
#include "constraints/tool_form.hpp"

#include "tests/constraints/forms.hpp"
#include "text/answer_parser.hpp"

#include <boost/json/parse.hpp>
#include <doctest/doctest.h>
#include <random>

using namespace paceline;
using namespace paceline::testing;
using constraints::AnswerPlan;
namespace json = boost::json;

namespace {

const std::vector<text::ToolFunction> functions{
    {.name = "find",
     .parameters = R"({"type": "object", "required": ["what"], "additionalProperties": false,
        "properties": {"what": {"type": "string", "enum": ["a", "b c"]}, "most": {"type": "integer"},
                       "deep": {"type": "boolean"}}})"},
    {.name = "now"}};

AnswerPlan plan(const char* format, AnswerPlan::Calls calls = AnswerPlan::Calls::required) {
  AnswerPlan plan;
  plan.calls = calls;
  plan.tools = text::tool_format(format);
  plan.functions = functions;
  return plan;
}

auto compiled(Forms& forms, const AnswerPlan& plan) {
  const auto form = constraints::form_of(plan).value();
  REQUIRE(form);
  INFO(form->text);
  auto read = forms.compile(form->kind, form->text);
  if (!read)
    FAIL(read.error().text());
  return *read;
}

/// Draws an answer of the form: any token that is possible, and the end of text where that is.
/// Empty: it did not end.
std::string drawn(const Forms& forms, const sampling::Constraint& form, unsigned seed) {
  std::mt19937 chance(seed);
  std::vector<TokenId> output;
  while (output.size() < 400) {
    sampling::TokenMask mask;
    REQUIRE(form.next({output, 0, {}}, mask));
    if (sampling::allows(mask, Forms::end_of_text))
      return forms.tokenizer().decode(output);
    std::vector<TokenId> possible;
    for (TokenId id = 0; id < forms.tokenizer().vocabulary(); ++id)
      if (sampling::allows(mask, id))
        possible.push_back(id);
    REQUIRE(!possible.empty());
    output.push_back(possible[chance() % possible.size()]);
  }
  return {};
}

bool fits(const std::string& name, const std::string& arguments) {
  json::error_code failed;
  const json::value read = json::parse(arguments, failed);
  if (failed || !read.is_object())
    return false;
  const json::object& object = read.get_object();
  if (name == "now")
    return object.empty();
  const auto* what = object.if_contains("what");
  if (name != "find" || !what || !(*what == "a" || *what == "b c"))
    return false;
  for (const auto& [key, value] : object)
    if ((key == "most" && !value.is_int64() && !value.is_uint64() && !value.is_double()) ||
        (key == "deep" && !value.is_bool()) || (key != "what" && key != "most" && key != "deep"))
      return false;
  return true;
}

/// Whether the text is calls that fit their schemas, and nothing besides.
bool is_calls(const char* format, const std::string& answer) {
  text::AnswerParser parser({.tools = text::tool_format(format), .functions = functions});
  std::vector<text::AnswerPiece> pieces = parser.feed(answer);
  for (auto& piece : parser.finish())
    append(pieces, std::move(piece));
  std::string name;
  std::string arguments;
  bool valid = !pieces.empty();
  for (const text::AnswerPiece& piece : pieces) {
    using Kind = text::AnswerPiece::Kind;
    valid = valid && piece.kind != Kind::content;
    if (piece.kind == Kind::call) {
      name = piece.text;
      arguments.clear();
    } else if (piece.kind == Kind::arguments) {
      arguments += piece.text;
    } else if (piece.kind == Kind::call_end) {
      valid = valid && fits(name, arguments);
    }
  }
  return valid;
}

} // namespace

TEST_CASE("an answer that must call is a call in the family's own form") {
  Forms forms;
  const std::pair<const char*, const char*> good[] = {
      {"hermes",
       "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"what\": \"a\"}}\n</tool_call>"},
      {"qwen3_coder",
       "<tool_call>\n<function=find>\n<parameter=what>\na\n</parameter>\n</function>\n"
       "</tool_call>"},
      {"llama3_json", "{\"name\": \"find\", \"parameters\": {\"what\": \"b c\", \"most\": 2}}"},
      {"pythonic", "[find(what=\"a\", deep=true), now()]"},
      {"mistral", "[TOOL_CALLS]find[ARGS]{\"what\": \"a\"}"},
      {"mistral_list", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]"},
      {"granite", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]"},
      {"glm45", "<tool_call>find\n<arg_key>what</arg_key>\n<arg_value>a</arg_value>\n</tool_call>"},
      {"openai", "<|channel|>commentary to=functions.find <|constrain|>json<|message|>"
                 "{\"what\": \"a\"}<|call|>"}};
  for (const auto& [format, answer] : good) {
    CAPTURE(format);
    const auto form = compiled(forms, plan(format));
    CHECK(forms.holds(*form, answer));
    CHECK(!forms.holds(*form, "hello"));
    CHECK(!forms.holds(*form, ""));
  }
  const auto hermes = compiled(forms, plan("hermes"));
  CHECK(
      !forms.holds(*hermes, "<tool_call>\n{\"name\": \"find\", \"arguments\": {}}\n</tool_call>"));
  CHECK(
      !forms.holds(*hermes, "<tool_call>\n{\"name\": \"none\", \"arguments\": {}}\n</tool_call>"));
}

TEST_CASE("the parser reads whatever the form allows as calls that fit their schemas") {
  Forms forms;
  for (const text::ToolFormat& format : text::tool_formats()) {
    const char* name = format.name.data();
    if (!constraints::has_form(format)) {
      CHECK(!constraints::form_of(plan(name)));
      continue;
    }
    const auto form = compiled(forms, plan(name));
    int ended = 0;
    for (unsigned seed = 0; seed < 40; ++seed) {
      const std::string answer = drawn(forms, *form, seed);
      if (answer.empty())
        continue;
      ++ended;
      CHECK_MESSAGE(is_calls(name, answer), (std::string(name) + ": " + answer));
    }
    CHECK(ended > 5);
  }
}

TEST_CASE("one call is the most where several are not allowed") {
  Forms forms;
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  AnswerPlan one = plan("hermes");
  CHECK(forms.holds(*compiled(forms, one), call + "\n" + call));
  one.several = false;
  CHECK(forms.holds(*compiled(forms, one), call));
  CHECK(!forms.holds(*compiled(forms, one), call + "\n" + call));
}

TEST_CASE("a call that the model may make is held to its schema once it is opened") {
  Forms forms;
  for (const char* format : {"hermes", "qwen3_coder", "glm45"}) {
    const auto form = compiled(forms, plan(format, AnswerPlan::Calls::allowed));
    CHECK(forms.holds(*form, "Anything, or { and < as well."));
    CHECK(!forms.holds(*form, "I look.<tool_call>\n{\"name\": \"none\""));
  }
  for (const char* format : {"llama3_json", "gemma4", "openai"})
    CHECK(!constraints::form_of(plan(format, AnswerPlan::Calls::allowed)).value());
  const auto form = compiled(forms, plan("hermes", AnswerPlan::Calls::allowed));
  CHECK(forms.holds(*form,
                    "I look.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
  CHECK(!forms.holds(
      *form, "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"what\": 1}}\n</tool_call>"));
}

TEST_CASE("a form and calls come behind reasoning, which is any text") {
  Forms forms;
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  AnswerPlan thinks = plan("hermes");
  thinks.reasoning = text::reasoning_format("think");
  const auto required = compiled(forms, thinks);
  CHECK(forms.holds(*required, "<think>\nA <tool_call> it is.\n</think>\n\n" + call));
  CHECK(forms.holds(*required, call));
  CHECK(!forms.holds(*required, "<think>\nA call it is."));
  thinks.in_reasoning = true;
  const auto opened = compiled(forms, thinks);
  CHECK(forms.holds(*opened, "A call it is.\n</think>\n" + call));
  CHECK(!forms.holds(*opened, call));
  AnswerPlan answers{.reasoning = text::reasoning_format("think"),
                     .form = Constraint{Constraint::Kind::choice, "", {"yes", "no"}}};
  const auto choice = compiled(forms, answers);
  CHECK(forms.holds(*choice, "<think>Well.</think>\n\nyes"));
  CHECK(forms.holds(*choice, "no"));
  CHECK(!forms.holds(*choice, "<think>Well.</think>maybe"));
  AnswerPlan free = plan("hermes", AnswerPlan::Calls::allowed);
  free.reasoning = text::reasoning_format("think");
  const auto either = compiled(forms, free);
  CHECK(forms.holds(*either, "<think>A <tool_call> or not.</think>No."));
  CHECK(forms.holds(*either, "<think>And so on"));
  CHECK(forms.holds(*either, "<think>A call.</think>" + call));
  CHECK(!forms.holds(*either, "<think>A call.</think><tool_call>now"));
}

TEST_CASE("a form beside calls that the model may make is the answer without any") {
  Forms forms;
  AnswerPlan both = plan("hermes", AnswerPlan::Calls::allowed);
  both.form = Constraint{Constraint::Kind::json, "", {}};
  const auto form = compiled(forms, both);
  CHECK(forms.holds(*form, "{\"any\": 1}"));
  CHECK(forms.holds(*form, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
  CHECK(!forms.holds(*form, "hello"));
  both.form->any_whitespace = false;
  CHECK(constraints::form_of(both).error().text().find("blanks") != std::string::npos);
}

TEST_CASE("schemas that nothing can hold an answer to are loosened unless they are strict") {
  std::vector<text::ToolFunction> some = functions;
  some.push_back({.name = "odd", .parameters = R"({"type": "object", "not": {}})"});
  some.push_back(
      {.name = "strict", .parameters = R"({"type": "object", "not": {}})", .strict = true});
  constraints::loosen(some, false);
  CHECK(some[0].parameters == functions[0].parameters);
  CHECK(some[2].parameters.find("additionalProperties") != std::string::npos);
  CHECK(some[3].parameters.find("not") != std::string::npos);
  Forms forms;
  AnswerPlan strict = plan("hermes");
  strict.functions = some;
  const auto form = constraints::form_of(strict).value();
  CHECK(forms.refusal(form->kind, form->text).find("'not'") != std::string::npos);
}

TEST_CASE("what the prompt has of a call is not asked for again") {
  Forms forms;
  for (const char* format : {"mistral_list", "granite"}) {
    AnswerPlan opened = plan(format);
    opened.opened = true;
    opened.reasoning = text::reasoning_format("think");
    const auto form = compiled(forms, opened);
    CHECK(forms.holds(*form, "[{\"name\": \"now\", \"arguments\": {}}]"));
    CHECK(!forms.holds(*form, "<think></think>[{\"name\": \"now\", \"arguments\": {}}]"));
  }
  AnswerPlan named = plan("mistral");
  named.opened = true;
  named.functions = {functions[0]};
  const auto form = compiled(forms, named);
  CHECK(forms.holds(*form, "{\"what\": \"a\"}"));
  CHECK(!forms.holds(*form, "[TOOL_CALLS]find[ARGS]{\"what\": \"a\"}"));
}

TEST_CASE(
    "functions whose calls in Python would have a form without bounds are refused before it") {
  const auto function = [](int parameters, const std::string& rest) {
    std::string properties;
    for (int i = 0; i < parameters; ++i)
      properties += (i == 0 ? "\"p" : ", \"p") + std::to_string(i) + "\": {\"type\": \"integer\"}";
    return text::ToolFunction{.name = "many",
                              .parameters = "{\"type\": \"object\", \"properties\": {" +
                                            properties + "}" + rest + "}"};
  };
  AnswerPlan many = plan("pythonic");
  many.functions = {function(10'000, "")}; // Each may be the first: 50 million parts.
  CHECK(!constraints::form_of(many));
  many.functions = {function(1000, ", \"$defs\": {\"a\": \"" + std::string(200'000, 'x') + "\"}")};
  CHECK(!constraints::form_of(many));
  many.functions = {function(10'000, ", \"required\": [\"p1\"]")};
  CHECK(!constraints::form_of(many));
  many.functions = {function(40, "")};
  CHECK(constraints::form_of(many));
  many.calls = AnswerPlan::Calls::allowed; // Then calls are held to nothing.
  many.functions = {function(10'000, "")};
  CHECK(constraints::form_of(many));
}
