// Answers in a form, and calls of functions, where they are offered.
#include "apps/laboratory/conformance/comparison.hpp"
#include "apps/laboratory/conformance/subject.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <fmt/format.h>

namespace paceline::apps::conformance {
namespace json = boost::json;
namespace {

constexpr int form_tokens = 160;

/// An object whose members are of few values, so that every answer comes to an end.
json::object schema() {
  return {{"type", "object"},
          {"properties",
           {{"color", {{"enum", json::array{"red", "green", "dark blue"}}}},
            {"ripe", {{"type", "boolean"}}},
            {"size", {{"enum", json::array{1, 2, 34}}}}}},
          {"required", json::array{"color", "ripe", "size"}},
          {"additionalProperties", false}};
}

/// Returns what is wrong with a text by that schema.
std::optional<std::string> misfit(const std::string& text) {
  json::error_code wrong;
  const json::value value = json::parse(text, wrong);
  if (wrong || !value.is_object())
    return "is no JSON object";
  const json::object& object = value.get_object();
  const json::object asked = schema();
  const auto& properties = asked.at("properties").as_object();
  for (const auto& [name, member] : properties) {
    const auto* found = object.if_contains(name);
    if (!found)
      return fmt::format("lacks {}", std::string(name));
    const auto* values = member.as_object().if_contains("enum");
    if (values ? std::ranges::find(values->as_array(), *found) == values->as_array().end()
               : !found->is_bool())
      return fmt::format("has another {} than the schema allows", std::string(name));
  }
  return object.size() == properties.size() ? std::nullopt
                                            : std::optional<std::string>("has members of its own");
}

/// Makes chats: OpenAI documents no form for completions.
std::vector<json::object> form_bodies(const Subject& subject, const json::value& format,
                                      double temperature) {
  std::vector<json::object> bodies;
  for (const char* prompt : prompts())
    bodies.push_back(subject.chat_body(
        prompt, form_tokens, {{"temperature", temperature}, {"response_format", format}}));
  return bodies;
}

json::value schema_format() {
  return {{"type", "json_schema"},
          {"json_schema", {{"name", "fruit"}, {"schema", schema()}, {"strict", true}}}};
}

Finding check_form(Subject& subject, const json::value& format,
                   const std::function<std::optional<std::string>(const std::string&)>& wrong) {
  std::size_t whole = 0;
  Answer shown;
  for (const double temperature : {0.0, 1.0}) {
    const auto answers = subject.ask_all(form_bodies(subject, format, temperature));
    if (auto finding = subject.missing(answers))
      return *finding;
    for (const Answer& answer : answers) {
      shown = answer;
      if (answer.first().finish_reason == "length")
        continue; // Blanks may go on and on.
      ++whole;
      if (const auto what = wrong(answer.text()))
        return subject.say(Verdict::fail, fmt::format("{} {}", excerpt(answer.text()), *what),
                           answer);
    }
  }
  if (whole == 0)
    return subject.say(Verdict::not_decidable,
                       fmt::format("no answer came to its end in {} tokens", form_tokens), shown);
  return subject.say(Verdict::pass, fmt::format("{} answers", whole), shown);
}

Finding check_schema(Subject& subject) {
  return check_form(subject, schema_format(), misfit);
}

Finding check_json_object(Subject& subject) {
  return check_form(subject, {{"type", "json_object"}},
                    [](const std::string& text) -> std::optional<std::string> {
                      json::error_code wrong;
                      const json::value value = json::parse(text, wrong);
                      return wrong || !value.is_object() ? std::optional("is no JSON object")
                                                         : std::nullopt;
                    });
}

Finding check_schema_twin(Subject& subject) {
  if (!subject.has_plain())
    return no_twin();
  const auto bodies = form_bodies(subject, schema_format(), 0);
  return same_answers(subject, subject.ask_all_plain(bodies), subject.ask_all(bodies),
                      "in a form, with speculation");
}

json::object tool_body(const Subject& subject, int tokens) {
  return subject.chat_body("Which fruit shall I buy? Choose one.", tokens,
                           {{"tools", json::array{{{"type", "function"},
                                                   {"function",
                                                    {{"name", "buy_fruit"},
                                                     {"description", "Buys a fruit."},
                                                     {"parameters", schema()}}}}}},
                            {"tool_choice", "required"},
                            {"parallel_tool_calls", false}});
}

Finding check_tools(Subject& subject) {
  const Answer answer = subject.ask(tool_body(subject, form_tokens));
  if (auto finding = subject.missing(answer))
    return *finding;
  json::error_code wrong;
  const auto* name =
      answer.raw.find_pointer("/choices/0/message/tool_calls/0/function/name", wrong);
  if (!name)
    return subject.say(
        answer.first().finish_reason == "length" ? Verdict::not_decidable : Verdict::fail,
        fmt::format("tool_choice is required, and the answer is {}", excerpt(answer.text())),
        answer);
  const auto* arguments =
      answer.raw.find_pointer("/choices/0/message/tool_calls/0/function/arguments", wrong);
  if (*name != json::value("buy_fruit") || !arguments || !arguments->is_string())
    return subject.say(Verdict::fail, "a function is called that is not there", answer);
  if (answer.first().finish_reason == "length")
    return subject.say(Verdict::not_decidable, "the call did not come to its end", answer);
  const std::string text(arguments->get_string());
  if (const auto what = misfit(text))
    return subject.say(Verdict::fail, fmt::format("the arguments {}: {}", *what, excerpt(text)),
                       answer);
  return subject.say(Verdict::pass, "a call whose arguments fit", answer);
}

} // namespace

void add_structure(Checks& checks) {
  checks.insert(
      checks.end(),
      {{"structure", "schema", "an answer fits the JSON schema that it was asked in", check_schema},
       {"structure", "speculation", "an answer in a form is the same with speculation and without",
        check_schema_twin},
       {"structure", "json-object", "an answer as json_object is one", check_json_object},
       {"structure", "tools", "a call that is required comes, and fits its schema", check_tools}});
}

} // namespace paceline::apps::conformance
