#include "constraints/form_check.hpp"

#include "constraints/limits.hpp"
#include "constraints/schema_check.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/value.hpp>
#include <fmt/format.h>

namespace paceline::constraints {
namespace {

namespace json = boost::json;

tl::unexpected<Error> bad(std::string what, std::string mend) {
  return fail(ErrorCode::invalid_argument, std::move(what), std::move(mend));
}

/// Keywords of JSON Schema that count something.
constexpr std::string_view counts[] = {"minItems",  "maxItems",      "minLength",
                                       "maxLength", "minProperties", "maxProperties"};

Result<void> check_count(std::string_view where, double count) {
  if (count >= 0 && count <= double(limits::form_count_max))
    return {};
  return bad(fmt::format("{} counts up to {:.0f}", where, count),
             fmt::format("give 0 to {}", limits::form_count_max));
}

/// Checks the numbers in braces ("a{1,1000}") of an expression or a grammar; letters in braces mean
/// something else.
Result<void> check_repeats(std::string_view where, std::string_view text) {
  double number = 0;
  bool in_braces = false;
  for (const char c : text) {
    if (c == '{' || c == ',')
      number = 0;
    in_braces = c == '{' || (in_braces && (c == ',' || (c >= '0' && c <= '9')));
    if (!in_braces || c == '{' || c == ',')
      continue;
    number = 10 * number + (c - '0');
    if (auto fits = check_count(where, number); !fits)
      return fits;
  }
  return {};
}

/// Checks how deep brackets are nested, whatever they mean and whether or not they are closed.
Result<void> check_depth(std::string_view where, std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    depth += int(c == '(' || c == '[') - int(depth > 0 && (c == ')' || c == ']'));
    if (depth > limits::form_depth_max)
      return bad(fmt::format("{} has more than {} brackets within each other", where,
                             limits::form_depth_max),
                 "make it flatter");
  }
  return {};
}

Result<void> check_grammar(std::string_view where, std::string_view text) {
  auto fits = check_depth(where, text);
  return fits ? check_repeats(where, text) : fits;
}

Result<void> check_expression(std::string_view where, std::string_view text) {
  if (text.size() > limits::expression_bytes_max)
    return bad(fmt::format("{} has {} bytes", where, text.size()),
               fmt::format("give at most {}", limits::expression_bytes_max));
  return check_grammar(where, text);
}

Result<void> check_values(const json::value& value);

/// Checks a member of a schema or of a structural tag, which has schemas, expressions and grammars
/// in it.
Result<void> check_member(std::string_view key, const json::value& value) {
  const std::string where = fmt::format("'{}'", text::shown(key));
  const auto* text = value.if_string();
  if (text && (key == "pattern" || key == "regex"))
    return check_expression(where, *text);
  if (text && key == "grammar")
    return check_grammar(where, *text);
  if (value.is_number() && std::ranges::count(counts, key) > 0)
    return check_count(where, value.to_number<double>());
  if (const auto* schemas = value.if_object(); schemas && key == "patternProperties")
    for (const auto& [pattern, schema] : *schemas)
      if (auto fits = check_expression(where, pattern); !fits)
        return fits;
  return check_values(value);
}

Result<void> check_values(const json::value& value) {
  Result<void> fits;
  if (const auto* array = value.if_array())
    for (auto one = array->begin(); fits && one != array->end(); ++one)
      fits = check_values(*one);
  if (const auto* object = value.if_object())
    for (auto one = object->begin(); fits && one != object->end(); ++one)
      fits = check_member(one->key(), one->value());
  return fits;
}

/// Checks the schemas in a structural tag.
Result<void> check_schemas_in(const json::value& tag) {
  Result<void> fits;
  if (const auto* array = tag.if_array())
    for (auto one = array->begin(); fits && one != array->end(); ++one)
      fits = check_schemas_in(*one);
  if (const auto* object = tag.if_object())
    for (auto one = object->begin(); fits && one != object->end(); ++one) {
      const auto* schema = one->key() == "json_schema" ? one->value().if_object() : nullptr;
      fits = schema ? check_schema(*schema) : check_schemas_in(one->value());
    }
  return fits;
}

Result<json::object> object_of(const char* what, const std::string& text) {
  auto object = text::parse_json_object(what, text);
  if (!object)
    return fail(ErrorCode::invalid_argument, object.error().message, object.error().hint);
  if (auto fits = check_values(*object); !fits)
    return tl::unexpected(fits.error());
  return object;
}

Result<void> check_choices(const std::vector<std::string>& choices) {
  if (choices.empty() || choices.size() > limits::choices_max)
    return bad(fmt::format("Constraint::choices has {} texts", choices.size()),
               fmt::format("give 1 to {}", limits::choices_max));
  std::size_t bytes = 0;
  for (const std::string& choice : choices)
    bytes += choice.size();
  if (bytes <= limits::form_bytes_max)
    return {};
  return bad(fmt::format("Constraint::choices has {} bytes", bytes),
             fmt::format("give at most {}", limits::form_bytes_max));
}

} // namespace

Result<void> check_form(const Constraint& form) {
  using Kind = Constraint::Kind;
  if (form.text.size() > limits::form_bytes_max)
    return bad(fmt::format("Constraint::text has {} bytes", form.text.size()),
               fmt::format("give at most {}", limits::form_bytes_max));
  if (form.kind != Kind::choice && !form.choices.empty())
    return bad("Constraint::choices are given with another kind of form", "leave one out");
  if ((form.kind == Kind::json || form.kind == Kind::choice) != form.text.empty())
    return bad(form.text.empty() ? "Constraint::text is empty"
                                 : "this form has no Constraint::text",
               form.text.empty() ? "give the form" : "leave it out");
  if (!form.any_whitespace && form.kind != Kind::json && form.kind != Kind::json_schema)
    return bad("Constraint::any_whitespace is false for another form than JSON", "leave it out");
  switch (form.kind) {
  case Kind::json: return {};
  case Kind::json_schema: return object_of("the JSON schema", form.text).and_then(check_schema);
  case Kind::structural_tag:
    return object_of("the structural tag", form.text).and_then(check_schemas_in);
  case Kind::choice: return check_choices(form.choices);
  case Kind::regex: return check_expression("the expression", form.text);
  case Kind::grammar: return check_grammar("the grammar", form.text);
  }
  return bad("Constraint::kind is none of its values", "give one of Constraint::Kind");
}

} // namespace paceline::constraints
