// What templates see of messages and variables, and whether a template can be used at all.
#include "text/chat_template.hpp"
#include "text/limits.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::text;

namespace {

Result<std::string> rendered(const std::string& source, const std::vector<ChatMessage>& messages,
                             const TemplateVariables& variables = {}) {
  return ChatTemplate::parse("t", source).and_then([&](const ChatTemplate& read) {
    return read.render(messages, false, {}, variables);
  });
}

std::string nested(int levels) {
  return std::string(std::size_t(levels), '[') + std::string(std::size_t(levels), ']');
}

} // namespace

TEST_CASE("a message's fields have any value that JSON has, and go before what it says besides") {
  const ChatMessage message{"assistant",
                            "text",
                            {{"reasoning_content", "\"b\\u00e9\""},
                             {"content", "null"},
                             {"calls", R"([{"n": 1, "x": 2.5, "t": true, "z": null, "l": []}])"},
                             {"calls", R"([{"n": 2}])"}}};
  CHECK(rendered("{{ messages[0] | tojson }}", {message}).value_or("") ==
        R"({"role": "assistant", "content": null, "reasoning_content": "b)"
        "\u00e9"
        R"(", "calls": [{"n": 2}]})");
  CHECK(rendered("{{ messages[0].name is defined }}", {message}).value_or("") == "False");
}

TEST_CASE("fields and variables are bounded in depth, bytes and number, and errors name them") {
  const auto field = [](const std::string& value) {
    return rendered("x", {{"user", "a"}, {"user", "b", {{"extra", value}}}});
  };
  const auto variable = [](const std::string& value) { return rendered("x", {}, {{"v", value}}); };
  std::string many = "[0";
  while (many.size() < 2 * limits::template_values_max)
    many += ",0";
  const std::pair<std::string, const char*> cases[] = {
      {"{", "is no JSON"},
      {"", "is no JSON"},
      {nested(limits::json_depth_max + 1), "is nested too deeply"},
      {many + ",0,0]", "has too many values"},
      {"[\"" + std::string(limits::template_value_bytes_max, 'x') + "\"]", "bytes of JSON"}};
  for (const auto& [value, what] : cases) {
    CAPTURE(what);
    const auto in_field = field(value);
    REQUIRE(!in_field);
    CHECK(in_field.error().code == ErrorCode::invalid_argument);
    CHECK(in_field.error().message.starts_with("messages[1].extra "));
    CHECK(in_field.error().message.find(what) != std::string::npos);
    const auto in_variable = variable(value);
    REQUIRE(!in_variable);
    CHECK(in_variable.error().message.starts_with("the variable v "));
  }
  CHECK(field(nested(limits::json_depth_max)));
  CHECK(field("\"" + std::string(2 * limits::template_value_bytes_max, 'x') + "\"")); // a text
  // All of a conversation count together.
  const std::string half = many.substr(0, limits::template_values_max) + ",0]";
  CHECK(rendered("x", {{"user", "a", {{"e", half}}}}));
  CHECK(!rendered("x", {{"user", "a", {{"e", half}}}, {"user", "b", {{"e", half}}}}));
}

TEST_CASE("names are few, since each is looked for among all") {
  TemplateVariables named;
  while (named.size() < limits::template_names_max)
    named.emplace_back("v" + std::to_string(named.size()), "1");
  CHECK(rendered("{{ v63 }}", {}, named).value_or("") == "1");
  CHECK(rendered("{{ messages[0].v63 }}", {{"user", "a", named}}).value_or("") == "1");
  while (named.size() < limits::template_values_max) // which would take most of a minute
    named.emplace_back("v" + std::to_string(named.size()), "1");
  const auto variables = rendered("x", {}, named);
  REQUIRE(!variables);
  CHECK(variables.error().message == "the conversation has 131072 variables");
  const auto fields = rendered("x", {{"user", "a"}, {"user", "b", named}});
  REQUIRE(!fields);
  CHECK(fields.error().message == "messages[1] has 131072 more fields");
}

TEST_CASE("a filter or test that is not known is found before any conversation") {
  const auto parse = [](const char* source) { return ChatTemplate::parse("t", source); };
  for (const char* source :
       {"a\n{{ 1 | foo }}", "a\n{{ 1 is foo }}", "\n{% for x in messages | foo %}{% endfor %}",
        "\n{% set x %}{{ 1 | foo }}{% endset %}", "\n{% macro f() %}{{ 1 | foo }}{% endmacro %}",
        "\n{{ [1, {'a': 1 | foo}] }}", "\n{{ f(1, a=2 | foo) }}",
        "\n{% for x in [] %}{% else %}{{ 1 | foo }}{% endfor %}"}) {
    CAPTURE(source);
    const auto read = parse(source);
    REQUIRE(!read);
    CHECK(read.error().message.starts_with("t, line 2: there is no "));
    CHECK(read.error().message.find("'foo'") != std::string::npos);
  }
  // Under a condition it may never be met, as with Jinja.
  for (const char* source : {"{% if false %}{{ 1 | foo }}{% endif %}", "{{ 1 | foo if false }}"}) {
    CAPTURE(source);
    CHECK(rendered(source, {}).value_or("?").empty());
  }
}
