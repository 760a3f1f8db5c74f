#include "constraints/tool_form.hpp"

#include "constraints/limits.hpp"
#include "constraints/schema_check.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <set>
#include <utility>

namespace paceline::constraints {
namespace {

namespace json = boost::json;
using text::ToolFormat;
using text::ToolFunction;
using Body = ToolFormat::Body;

constexpr const char* any_object = R"({"type": "object", "additionalProperties": true})";
constexpr const char* no_arguments = R"({"type": "object", "properties": {}})";

// ---- parts of a structural tag ----

json::object literal(std::string_view text) {
  return {{"type", "const_string"}, {"value", text}};
}

json::object sequence(json::array elements) {
  return {{"type", "sequence"}, {"elements", std::move(elements)}};
}

json::object either(json::array elements) {
  return {{"type", "or"}, {"elements", std::move(elements)}};
}

json::object optional(json::object content) {
  return {{"type", "optional"}, {"content", std::move(content)}};
}

json::object tag(std::string_view begin, json::object content, std::string_view end) {
  return {{"type", "tag"}, {"begin", begin}, {"content", std::move(content)}, {"end", end}};
}

json::object any_text() {
  return {{"type", "any_text"}};
}

json::object schema_part(json::value schema) {
  return {{"type", "json_schema"},
          {"json_schema", std::move(schema)},
          {"max_whitespace_cnt", limits::whitespace_max}};
}

/// Returns a function's schema. A malformed one takes any object; whoever asked knows better.
json::object schema_of(const ToolFunction& function) {
  json::error_code failed;
  json::value schema =
      json::parse(function.parameters.empty() ? no_arguments : function.parameters, failed);
  if (failed || !schema.is_object() || schema.get_object().empty())
    return json::parse(any_object).as_object();
  return schema.get_object();
}

// ---- calls ----

/// Returns the schemas of a function's parameters, by name.
const json::object* parameters_of(const json::object& schema) {
  const auto* properties = schema.if_contains("properties");
  return properties ? properties->if_object() : nullptr;
}

std::set<std::string_view> required_of(const json::object& schema) {
  std::set<std::string_view> names;
  const auto* required = schema.if_contains("required");
  if (const auto* list = required ? required->if_array() : nullptr)
    for (const json::value& name : *list)
      if (name.is_string())
        names.insert(name.get_string());
  return names;
}

/// f(a=1, b="x"), whose arguments stand in the schema's order, required ones first.
json::object python_call(const ToolFunction& function) {
  const json::object schema = schema_of(function);
  const json::object* described = parameters_of(schema);
  const auto required = required_of(schema);
  const auto argument = [&](const json::object::value_type& property) {
    json::value value = property.value();
    for (const char* shared : {"$defs", "definitions"})
      if (const auto* definitions = schema.if_contains(shared); definitions && value.is_object())
        value.get_object().emplace(shared, *definitions);
    return sequence({literal(std::string(property.key()) + "="), schema_part(std::move(value))});
  };
  json::array required_ones{literal(function.name + "(")};
  json::array optional_ones;
  for (std::size_t i = 0; described && i < described->size(); ++i) {
    const auto& property = described->begin()[i];
    if (!required.contains(property.key())) {
      optional_ones.push_back(argument(property));
      continue;
    }
    if (required_ones.size() > 1)
      required_ones.push_back(literal(", "));
    required_ones.push_back(argument(property));
  }
  // An optional argument has a comma before it, unless it is the first of all; any of them may be
  // that where none is required.
  json::array ways;
  for (std::size_t i = 0; i < optional_ones.size(); ++i) {
    json::array way;
    if (required_ones.size() == 1)
      way.push_back(optional_ones[i]);
    for (std::size_t j = i + way.size(); j < optional_ones.size(); ++j)
      way.push_back(optional(sequence({literal(", "), optional_ones[j]})));
    ways.push_back(sequence(std::move(way)));
    if (required_ones.size() > 1)
      break;
  }
  if (!ways.empty())
    required_ones.push_back(optional(either(std::move(ways))));
  required_ones.push_back(literal(")"));
  return sequence(std::move(required_ones));
}

/// Returns the bytes of schemas in a call's form: an optional argument stands in it once for each
/// that may come first, and each time with all definitions.
std::size_t python_call_bytes(const ToolFunction& function) {
  const json::object schema = schema_of(function);
  const json::object* described = parameters_of(schema);
  const auto required = required_of(schema);
  std::size_t definitions = 0;
  for (const char* shared : {"$defs", "definitions"})
    if (const auto* some = schema.if_contains(shared))
      definitions += json::serialize(*some).size();
  std::size_t bytes = 0;
  std::size_t firsts = 0; // optional arguments so far
  for (std::size_t i = 0; described && i < described->size(); ++i) {
    const auto& property = described->begin()[i];
    firsts += !required.contains(property.key());
    bytes += (property.key().size() + json::serialize(property.value()).size() + definitions) *
             (required.empty() ? firsts : 1);
  }
  return bytes;
}

/// Returns one call, with its marks unless calls stand in a list.
json::object call_tag(const ToolFormat& format, const ToolFunction& function) {
  const bool marked = !format.in_list && !format.bare;
  const std::string opening = marked ? std::string(format.opening) : "";
  const std::string closing = marked ? std::string(format.closing) : "";
  const std::string line = closing.empty() ? "" : "\n";
  json::object arguments = schema_part(schema_of(function));
  switch (format.body) {
  case Body::xml:
    arguments["style"] = "qwen_xml";
    return tag(opening + "\n<function=" + function.name + ">\n", std::move(arguments),
               "\n</function>\n" + closing);
  case Body::tags:
    arguments["style"] = "glm_xml";
    return tag(opening + function.name + "\n", std::move(arguments), "\n" + closing);
  case Body::python: return tag("", python_call(function), "");
  case Body::channel:
    return tag(opening + "commentary to=functions." + function.name +
                   " <|constrain|>json<|message|>",
               std::move(arguments), closing);
  case Body::named:
    if (!format.in_list)
      return tag(opening + function.name + "[ARGS]", std::move(arguments), "");
    break;
  case Body::json:
  case Body::dict: break; // which has no form
  }
  return tag(opening + line + "{\"name\": \"" + function.name + "\", \"" +
                 std::string(format.arguments) + "\": ",
             std::move(arguments), "}" + line + closing);
}

json::array call_tags(const AnswerPlan& plan) {
  json::array tags;
  for (const ToolFunction& function : plan.functions)
    tags.push_back(call_tag(*plan.tools, function));
  return tags;
}

/// Returns the calls of an answer that has some.
json::object calls(const AnswerPlan& plan) {
  const ToolFormat& format = *plan.tools;
  const bool named =
      (format.body == Body::named && !format.in_list) || format.body == Body::channel;
  if (plan.opened && named)
    return schema_part(schema_of(plan.functions.front()));
  const std::string_view separator = format.in_list || format.body == Body::python ? ", "
                                     : format.bare                                 ? "; "
                                     : format.closing.empty()                      ? ""
                                                                                   : "\n";
  json::object all{{"type", "tags_with_separator"},
                   {"tags", call_tags(plan)},
                   {"separator", separator},
                   {"at_least_one", true},
                   {"stop_after_first", !plan.several}};
  if (!format.in_list)
    return all;
  const std::string opening = plan.opened || format.bare ? "" : std::string(format.opening);
  return sequence({literal(opening + "["), std::move(all), literal("]")});
}

/// Returns a text in which calls may be opened.
json::object text_with_calls(const AnswerPlan& plan) {
  return {{"type", "triggered_tags"},
          {"triggers", json::array{plan.tools->opening}},
          {"tags", call_tags(plan)},
          {"at_least_one", false},
          {"stop_after_first", !plan.several}};
}

// ---- the answer ----

/// Returns a form as a part of another one. None: a structural tag of the older kind.
std::optional<json::object> part_of(const Constraint& form) {
  json::error_code failed;
  switch (form.kind) {
  case Constraint::Kind::json: return schema_part(json::parse(any_object));
  case Constraint::Kind::json_schema: {
    json::value schema = json::parse(form.text, failed);
    return failed ? std::nullopt : std::optional(schema_part(std::move(schema)));
  }
  case Constraint::Kind::regex: return json::object{{"type", "regex"}, {"pattern", form.text}};
  case Constraint::Kind::grammar: return json::object{{"type", "grammar"}, {"grammar", form.text}};
  case Constraint::Kind::choice: {
    json::array texts;
    for (const std::string& choice : form.choices)
      texts.push_back(literal(choice));
    return either(std::move(texts));
  }
  case Constraint::Kind::structural_tag: break;
  }
  const json::value tag = json::parse(form.text, failed);
  const auto* object = failed ? nullptr : tag.if_object();
  const auto* format = object ? object->if_contains("format") : nullptr;
  return format && format->is_object() ? std::optional(format->get_object()) : std::nullopt;
}

/// Returns the answer that comes behind reasoning. None: any text.
std::optional<json::object> answer(const AnswerPlan& plan) {
  using Calls = AnswerPlan::Calls;
  if (plan.calls == Calls::required)
    return calls(plan);
  const auto form = plan.form ? part_of(*plan.form) : std::nullopt;
  if (plan.calls == Calls::allowed && form)
    return either({calls(plan), *form});
  if (plan.calls == Calls::allowed && holds_opened_calls(*plan.tools))
    return text_with_calls(plan);
  return form;
}

/// Checks that calls which must have a form have one, and that one which is longer than their
/// schemas may be.
Result<void> check_calls(const AnswerPlan& plan) {
  using Calls = AnswerPlan::Calls;
  const bool has_calls =
      plan.calls == Calls::required || (plan.calls == Calls::allowed && plan.form);
  if (has_calls && !has_form(*plan.tools))
    return fail(ErrorCode::unsupported,
                "calls of format " + std::string(plan.tools->name) + " have no form",
                "leave the choice of calls to the model");
  if (!has_calls || plan.tools->body != Body::python)
    return {};
  std::size_t bytes = 0;
  for (const ToolFunction& function : plan.functions)
    bytes += python_call_bytes(function);
  if (bytes <= limits::form_bytes_max)
    return {};
  return fail(ErrorCode::invalid_argument,
              "the functions have more parameters than a form of calls in Python has room for",
              "give fewer functions, or make parameters required");
}

/// Puts the model's reasoning before an answer. Where any text may come, reasoning may stay open.
json::object behind_reasoning(const AnswerPlan& plan, json::object answer, bool any_text_fits) {
  if (!plan.reasoning || plan.opened)
    return answer;
  const auto& marks = *plan.reasoning;
  json::object reasoning =
      sequence({tag(plan.in_reasoning ? "" : marks.opening, any_text(), marks.closing),
                json::object{{"type", "regex"}, {"pattern", "\\n{0,3}"}}});
  const bool must = plan.in_reasoning && !any_text_fits;
  return sequence(
      {must ? std::move(reasoning) : optional(std::move(reasoning)), std::move(answer)});
}

} // namespace

bool has_form(const ToolFormat& format) {
  return format.body != Body::dict; // Its texts stand between marks of their own.
}

bool holds_opened_calls(const ToolFormat& format) {
  if (!has_form(format) || format.body == Body::channel) // whose opening is that of others, too
    return false;
  return !format.opening.empty() && !format.bare && !format.in_list && !format.closing.empty();
}

Result<std::optional<Constraint>> form_of(const AnswerPlan& plan) {
  if (const auto fits = check_calls(plan); !fits)
    return tl::unexpected(fits.error());
  if (plan.free || (plan.calls == AnswerPlan::Calls::none && !plan.reasoning))
    return plan.form;
  auto held = answer(plan);
  if (!held)
    return plan.form;
  if (plan.form && !plan.form->any_whitespace)
    return fail(ErrorCode::unsupported,
                "an answer behind reasoning, or beside calls, has free blanks in its JSON",
                "leave out Constraint::any_whitespace (disable_any_whitespace)");
  const bool any_text_fits = plan.calls == AnswerPlan::Calls::allowed && !plan.form;
  json::object tag{{"type", "structural_tag"},
                   {"format", behind_reasoning(plan, std::move(*held), any_text_fits)}};
  return Constraint{Constraint::Kind::structural_tag, json::serialize(tag), {}};
}

void loosen(std::vector<ToolFunction>& functions, bool all) {
  for (ToolFunction& function : functions)
    if (!function.strict && (all || !check_schema(schema_of(function))))
      function.parameters = any_object;
}

} // namespace paceline::constraints
