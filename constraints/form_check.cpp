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
  if (count <= double(limits::form_count_max))
    return {};
  return bad(fmt::format("{} counts up to {:.0f}", where, count),
             fmt::format("give at most {}", limits::form_count_max));
}

/// Numbers in braces ("a{1,1000}") of an expression or a grammar; letters in braces are others'.
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

/// Brackets within each other, whatever they mean and whether or not they are closed.
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

Result<void> check_expression(std::string_view where, std::string_view text) {
  auto fits = check_depth(where, text);
  return fits ? check_repeats(where, text) : fits;
}

/// Of a schema, wherever in it: a structural tag has schemas in it.
Result<void> check_values(const json::value& value) {
  if (const auto* array = value.if_array()) {
    for (const json::value& one : *array)
      if (auto fits = check_values(one); !fits)
        return fits;
    return {};
  }
  const auto* object = value.if_object();
  if (!object)
    return {};
  for (const auto& [key, one] : *object) {
    Result<void> fits;
    if (const auto* text = one.if_string(); text && (key == "pattern" || key == "regex"))
      fits = check_expression(fmt::format("'{}'", std::string_view(key)), *text);
    else if (one.is_number() && std::ranges::count(counts, std::string_view(key)) > 0)
      fits = check_count(fmt::format("'{}'", std::string_view(key)), one.to_number<double>());
    else
      fits = check_values(one);
    if (!fits)
      return fits;
  }
  return {};
}

Result<void> check_object(const char* what, const std::string& text, bool is_schema) {
  auto object = text::parse_json_object(what, text);
  if (!object)
    return fail(ErrorCode::invalid_argument, object.error().message, object.error().hint);
  auto fits = check_values(*object);
  return fits && is_schema ? check_schema(*object) : fits;
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
  switch (form.kind) {
  case Kind::json: return {};
  case Kind::json_schema: return check_object("the JSON schema", form.text, true);
  case Kind::structural_tag: return check_object("the structural tag", form.text, false);
  case Kind::choice: return check_choices(form.choices);
  case Kind::regex: return check_expression("the expression", form.text);
  case Kind::grammar: return check_expression("the grammar", form.text);
  }
  return bad("Constraint::kind is none of its values", "give one of Constraint::Kind");
}

} // namespace paceline::constraints
