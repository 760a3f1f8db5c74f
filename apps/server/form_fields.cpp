#include "apps/server/form_fields.hpp"

#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

using Kind = Constraint::Kind;

/// A name of a kind of form, at the top of a body or in structured_outputs.
struct Named {
  std::string_view name;
  Kind kind;
};
constexpr Named at_the_top[] = {{"guided_json", Kind::json_schema},
                                {"guided_regex", Kind::regex},
                                {"guided_choice", Kind::choice},
                                {"guided_grammar", Kind::grammar},
                                {"json_schema", Kind::json_schema},
                                {"regex", Kind::regex},
                                {"grammar", Kind::grammar},
                                {"ebnf", Kind::grammar},
                                {"structural_tag", Kind::structural_tag}};
constexpr Named in_structured_outputs[] = {{"json", Kind::json_schema},
                                           {"regex", Kind::regex},
                                           {"choice", Kind::choice},
                                           {"grammar", Kind::grammar},
                                           {"structural_tag", Kind::structural_tag}};

/// Takes the form that a body names, and refuses a second one.
class Forms {
public:
  void take(Fields& from, std::string_view name, Constraint form) {
    if (form_)
      return from.wrong(name, fmt::format("left out beside {}", form_->field));
    form_ = Form{std::move(form), from.path(name)};
  }
  /// Takes the form in this field. Schemas and tags may be objects, or texts of them.
  void take(Fields& from, const Named& field) {
    const json::value* value = from.find(field.name);
    if (!value)
      return;
    if (field.kind == Kind::choice)
      return take_choices(from, field.name, *value);
    const bool structured = field.kind == Kind::json_schema || field.kind == Kind::structural_tag;
    if (structured && value->is_object())
      return take(from, field.name, {field.kind, json::serialize(*value), {}});
    if (!value->is_string())
      return from.wrong(field.name, structured ? "an object, or JSON of one" : "a string");
    if (!value->get_string().empty())
      take(from, field.name, {field.kind, std::string(value->get_string()), {}});
  }
  /// Allows the form, which must be JSON, no blanks but those that are usual.
  void disable_any_whitespace(Fields& from, std::string_view name) {
    if (!form_ ||
        (form_->constraint.kind != Kind::json && form_->constraint.kind != Kind::json_schema))
      return from.wrong(name, "left out: it is for JSON");
    form_->constraint.any_whitespace = false;
  }
  std::optional<Form> taken() { return std::move(form_); }

private:
  void take_choices(Fields& from, std::string_view name, const json::value& value) {
    Constraint form{Kind::choice, "", {}};
    const auto* list = value.if_array();
    for (std::size_t i = 0; list && i < list->size(); ++i)
      if (const auto* text = (*list)[i].if_string())
        form.choices.emplace_back(*text);
    if (!list || list->empty() || form.choices.size() != list->size())
      return from.wrong(name, "a list of strings, and not empty");
    take(from, name, std::move(form));
  }

  std::optional<Form> form_;
};

/// Reads OpenAI's {"name", "schema", "strict"}.
void read_named_schema(Fields& inner, Forms& forms) {
  inner.text("name");
  inner.text("description");
  inner.boolean("strict");
  if (const auto* schema = inner.nested("schema"))
    forms.take(inner, "schema", {Kind::json_schema, json::serialize(*schema), {}});
  else
    inner.wrong("schema", "an object");
}

/// Reads {"type": "json_schema", "json_schema": {...}}.
void read_response_schema(Fields& format, Forms& forms) {
  const auto* object = format.nested("json_schema");
  if (!object)
    return format.wrong("json_schema", "an object with a schema");
  Fields inner(*object, format.path("json_schema"));
  read_named_schema(inner, forms);
  format.wrong(inner.error());
}

/// Reads a response's {"format": {"type": "json_schema", "name", "schema", "strict"}}.
void read_text(Fields& fields, Forms& forms) {
  const auto* object = fields.nested("text");
  if (!object)
    return;
  Fields text(*object, "text");
  if (text.text("verbosity").value_or("medium") != "medium")
    text.wrong("verbosity", "medium, or left out: no model here has others");
  if (const auto* inner = text.nested("format")) {
    Fields format(*inner, "text.format");
    const auto type = format.text("type").value_or("");
    if (type == "json_object")
      forms.take(format, "type", {Kind::json, "", {}});
    else if (type == "json_schema")
      read_named_schema(format, forms);
    else if (type != "text")
      format.wrong("type", "text, json_object or json_schema");
    text.wrong(format.error());
  }
  fields.wrong(text.error());
}

void read_response_format(Fields& fields, Forms& forms) {
  const auto* object = fields.nested("response_format");
  if (!object)
    return;
  Fields format(*object, "response_format");
  const auto type = format.text("type").value_or("");
  if (type == "json_object") {
    forms.take(format, "type", {Kind::json, "", {}});
  } else if (type == "json_schema") {
    read_response_schema(format, forms);
  } else if (type == "structural_tag") {
    forms.take(format, "type", {Kind::structural_tag, json::serialize(*object), {}});
  } else if (type != "text") {
    format.wrong("type", "text, json_object, json_schema or structural_tag");
  }
  fields.wrong(format.error());
}

/// Reads vLLM's field. The options that vLLM passes to its back end are decided here, and so
/// refused.
void read_structured_outputs(Fields& fields, Forms& forms) {
  const auto* object = fields.nested("structured_outputs");
  if (!object)
    return;
  Fields inner(*object, "structured_outputs");
  for (const Named& field : in_structured_outputs)
    forms.take(inner, field);
  if (inner.boolean("json_object") == true)
    forms.take(inner, "json_object", {Kind::json, "", {}});
  if (inner.boolean("disable_any_whitespace") == true)
    forms.disable_any_whitespace(inner, "disable_any_whitespace");
  for (const char* other :
       {"disable_fallback", "disable_additional_properties", "whitespace_pattern"})
    if (const auto* value = inner.find(other); value && *value != json::value(false))
      inner.wrong(other, "left out: it is not supported");
  fields.wrong(inner.error());
}

} // namespace

std::optional<Form> read_form(Fields& fields, Api api) {
  Forms forms;
  if (api == Api::responses)
    read_text(fields, forms);
  else
    read_response_format(fields, forms);
  read_structured_outputs(fields, forms);
  for (const Named& field : at_the_top)
    forms.take(fields, field);
  return forms.taken();
}

} // namespace paceline::apps::serve
