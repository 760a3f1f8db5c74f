// JSON schemas: what is taken holds, and the rest is refused by name.
// tools/reference/schema_check.py compares far more of them with what another library says.
#include "tests/constraints/forms.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;

namespace {

constexpr auto schema = Constraint::Kind::json_schema;

struct Held {
  const char* schema;
  std::vector<const char*> valid;
  std::vector<const char*> invalid;
};

} // namespace

TEST_CASE("a schema holds an answer to all that it says") {
  const Held cases[] = {
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}},
           "required": ["a"]})",
       {R"({"a": 1})", R"({"a":-20,"b":null})"},
       {"{}", R"({"b": null})", R"({"a": 1.5})", R"({"a": 1, "c": 2})", R"({"a": 1)", "[]"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("é12")"},
       {R"("a")", R"("abcd")", "\"a\tb\"", "\"a\nb\"", R"(ab)"}},
      {R"({"type": "string", "maxLength": 5})", {R"("")"}, {"\"\x02\"", "\"\x1f\""}},
      {R"({"type": "string"})", {R"("any \" text")"}, {"\"\x02\"", "\"\t\""}},
      {R"({"type": "array", "items": {"enum": ["x", 2]}, "minItems": 1, "maxItems": 2})",
       {R"(["x"])", R"([2, "x"])"},
       {"[]", "[1]", R"(["x", "x", "x"])"}},
      {R"({"type": "integer", "minimum": -3, "exclusiveMaximum": 12})",
       {"-3", "0", "11"},
       {"-4", "12", "1.0", "007"}},
      {R"({"anyOf": [{"const": "a\"b"}, {"type": "boolean"}]})",
       {R"("a\"b")", "true"},
       {R"("a")", "1"}},
      {R"({"type": "string", "pattern": "^[A-Z]{2}$"})",
       {R"("AB")"},
       {R"("A")", R"("ABC")", R"("ab")"}},
      {R"({"$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}},
           "$ref": "#/$defs/n"})",
       {"{}", R"({"n": {"n": {}}})"},
       {R"({"n": 1})", R"({"m": {}})"}},
  };
  Forms forms;
  for (const Held& held : cases) {
    CAPTURE(std::string(held.schema));
    const auto form = forms.compile(schema, held.schema);
    REQUIRE_MESSAGE(form, form.error().text());
    for (const std::string text : held.valid)
      CHECK_MESSAGE(forms.holds(**form, text), text);
    for (const std::string text : held.invalid)
      CHECK_MESSAGE(!forms.holds(**form, text), text);
  }
}

TEST_CASE("what a schema says and answers would not be held to is refused by name") {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type": "array", "uniqueItems": true})", "'uniqueItems'"},
      {R"({"type": "array", "contains": {"type": "null"}})", "'contains'"},
      {R"({"not": {"type": "null"}})", "'not'"},
      {R"({"if": {"type": "null"}})", "'if'"},
      {R"({"type": "object", "dependentRequired": {"a": ["b"]}})", "'dependentRequired'"},
      {R"({"type": "string", "misspelt": 1})", "'misspelt'"},
      {R"({"minimum": 5})", "'minimum' without a 'type'"},
      {R"({"required": ["a"], "type": "object"})", "'a' among 'required'"},
      {R"({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]})",
       "'b' among 'required'"},
      {R"({"type": "object", "anyOf": [{"type": "null"}]})", "'type' beside 'anyOf'"},
      {R"({"$ref": "#/$defs/a", "maxLength": 3, "$defs": {"a": {"type": "string"}}})",
       "'maxLength' beside '$ref'"},
      {R"({"type": "integer", "enum": [1, 1e300, "x"]})", "not of its 'type'"},
      {R"({"type": "array", "items": {"type": "array", "uniqueItems": true}})", "'uniqueItems'"},
      {R"({"type": "object", "properties": {"a": {"not": {}}}})", "'not'"},
  };
  Forms forms;
  for (const auto& [text, name] : cases) {
    CAPTURE(std::string(text));
    const std::string said = forms.refusal(schema, text);
    CHECK_MESSAGE(said.find(name) != std::string::npos, said);
    // also where the schema stands in a structural tag
    const std::string tag =
        R"({"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "content":
            {"type": "json_schema", "json_schema": )" +
        std::string(text) + R"(}, "end": "</a>"}})";
    const std::string in_tag = forms.refusal(Constraint::Kind::structural_tag, tag);
    CHECK_MESSAGE(in_tag.find(name) != std::string::npos, in_tag);
  }
}

TEST_CASE("a schema that is none is refused in a line") {
  Forms forms;
  for (const char* text :
       {"", "[]", "{", R"({"type": 5})", R"({"type": "text"})", R"({"properties": 1})",
        R"({"type": "object", "required": [1]})", R"({"$ref": "#/$defs/none"})",
        R"({"type": "string", "pattern": "(a"})", R"({"type": "array", "maxItems": -1})",
        R"({"type": "array", "minItems": 1e9})", R"({"type": "string", "minLength": 100001})",
        R"({"type": "string", "maxLength": -1})", R"({"type": "object", "maxProperties": -1})",
        R"({"type": "string", "maxLength": 2.5})", R"({"type": "string", "minLength": "2"})",
        R"({"type": "integer", "minimum": 3, "maximum": 2})", R"({"enum": []})"}) {
    CAPTURE(std::string(text));
    const std::string said = forms.refusal(schema, text);
    CHECK(said != "taken");
    CHECK(said.find('\n') == std::string::npos);
    CHECK(said.find("Check failed") == std::string::npos);
  }
}
