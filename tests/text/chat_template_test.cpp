#include "text/chat_template.hpp"

#include "tests/support/files.hpp"
#include "text/limits.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace paceline;
using namespace paceline::text;
namespace json = boost::json;

namespace {

std::string string_of(const json::value& value) {
  return std::string(value.as_string());
}

std::vector<ChatMessage> conversation(const json::value& value) {
  std::vector<ChatMessage> out;
  for (const json::value& message : value.as_array())
    out.push_back({string_of(message.at("role")), string_of(message.at("content"))});
  return out;
}

/// What the reference was given and what it made of it.
struct Reference {
  json::value data = testing::data("chat_templates.json");
  ChatTemplate::Variables variables;
  std::vector<std::vector<ChatMessage>> conversations;
  std::tm now{};

  Reference() {
    for (const auto& member : data.at("tokens").as_object())
      variables.emplace_back(member.key(), string_of(member.value()));
    for (const json::value& each : data.at("conversations").as_array())
      conversations.push_back(conversation(each));
    const auto& t = data.at("now").as_array();
    const auto part = [&](std::size_t i) { return t[i].to_number<int>(); };
    now.tm_year = part(0) - 1900;
    now.tm_mon = part(1) - 1;
    now.tm_mday = part(2);
    now.tm_hour = part(3);
    now.tm_min = part(4);
    now.tm_sec = part(5);
    now.tm_wday = (part(6) + 1) % 7;
    now.tm_yday = part(7) - 1;
  }

  /// The text, or why there is none.
  Result<std::string> render(const std::string& name, const std::string& source,
                             std::span<const ChatMessage> messages, bool prompt) const {
    return ChatTemplate::parse(name, source, variables).and_then([&](const ChatTemplate& read) {
      return read.render(messages, prompt, now);
    });
  }
};

void check_same(const Result<std::string>& own, const json::value& expected) {
  if (expected.is_string()) {
    CHECK_MESSAGE(own, own.error().text());
    CHECK(own.value_or("") == string_of(expected));
    return;
  }
  REQUIRE_FALSE(own);
  CHECK(own.error().text().find('\n') == std::string::npos);
  if (expected.is_object())
    CHECK(own.error().message.find(string_of(expected.at("raised"))) != std::string::npos);
}

const std::vector<ChatMessage> hello{{"user", "Hello"}};

Result<std::string> render(const std::string& source,
                           std::span<const ChatMessage> messages = hello) {
  return ChatTemplate::parse("t", source).and_then([&](const ChatTemplate& read) {
    return read.render(messages, false, {});
  });
}

Error error_of(const std::string& source) {
  const auto out = render(source);
  REQUIRE_FALSE(out);
  return out.error();
}

} // namespace

TEST_CASE("conversations read as the reference renders them by every family's constructs") {
  const Reference reference;
  int compared = 0;
  for (const json::value& family : reference.data.at("families").as_array()) {
    const std::string name = string_of(family.at("name"));
    CAPTURE(name);
    const std::string source =
        testing::read_file(std::string(PACELINE_TEST_DATA) + "/chat_templates/" + name + ".jinja");
    const auto& results = family.at("results").as_array();
    for (std::size_t i = 0; i < results.size(); ++i)
      for (const bool prompt : {false, true}) {
        CAPTURE(i);
        check_same(reference.render(name, source, reference.conversations[i], prompt),
                   results[i].as_array()[prompt]);
        ++compared;
      }
  }
  CHECK(compared >= 500);
}

TEST_CASE("each rule of the language gives what the reference gives") {
  const Reference reference;
  for (const json::value& snippet : reference.data.at("snippets").as_array()) {
    const std::string source = string_of(snippet.at("template"));
    CAPTURE(source);
    check_same(reference.render("snippet", source, reference.conversations[2], false),
               snippet.at("result"));
  }
}

TEST_CASE("what is not supported is named, with its line") {
  const auto check = [](const std::string& source, int line, const std::string& what) {
    const Error error = error_of(source);
    CHECK(error.code == ErrorCode::unsupported);
    CHECK(error.message == fmt::format("t, line {}: {} is not supported", line, what));
    CHECK_FALSE(error.hint.empty());
  };
  check("a\n{% autoescape true %}{% endautoescape %}", 2, "the statement 'autoescape'");
  check("{{ 1 }}\n\n{{ 'a'.encode() }}", 3, "the method 'encode' of a value of type str");
  check("{{\n'a' | urlize }}", 2, "the filter 'urlize'");
  check("{{\n '\\N{BULLET}' }}", 2, "a character by its name (\\N)");
  check("{{ lipsum() }}", 1, "the function 'lipsum'");
  check("{{ (-8) ** 0.5 }}", 1, "a complex number");
  check("{{ range }}", 1, "showing a function");
  // Whole numbers have 64 bits, and one that has more is no other number.
  CHECK(error_of("{{ 9223372036854775807 + 1 }}").message == "t, line 1: a number is too large");
  CHECK(error_of("{{ 9223372036854775808 }}").message == "t, line 1: a number is too large");
}

TEST_CASE("what a template refuses says why, and where") {
  const Error error =
      error_of("{% for m in messages %}\n{{ raise_exception('no ' ~ m.role) }}{% endfor %}");
  CHECK(error.code == ErrorCode::invalid_argument);
  CHECK(error.message == "t, line 2: the template refuses this conversation: no user");
}

TEST_CASE("templates cannot take more than their bounds") {
  const auto grow = [](const std::string& first, const std::string& next, int times) {
    return "{% set ns = namespace(x=" + first + ") %}{% for i in range(" + std::to_string(times) +
           ") %}{% set ns.x = " + next + " %}{% endfor %}";
  };
  const std::vector<std::string> greedy{
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{{ 'x' * 1000000000000 }}",
      "{{ range(10000000000) | length }}",
      grow("'ab'", "ns.x ~ ns.x", 99),
      grow("[1]", "ns.x + ns.x", 99),
      grow("[1]", "[ns.x, ns.x]", 50) + "{{ ns.x }}",
      grow("[1]", "[ns.x]", 1000),
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}",
      "{{ " + std::string(5000, '-') + "1 }}",
      "{{ 1" +
          [] {
            std::string sum;
            for (int i = 0; i < 5000; ++i)
              sum += " + 1";
            return sum;
          }() +
          " }}",
      "{{ 'aaaaaaaaaaaaaaaaaaaaaaaa' | replace('a', 'b' * 60000000) }}",
      "{{ 'a' | center(10000000000) }}",
      "{{ 'a'.ljust(1000000000) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '%*d' % (9000000000, 1) }}",
      "{{ '{:9000000000}'.format(1) }}",
      "{{ '{:.999999999f}'.format(1.5) }}",
      "{{ '\t' .expandtabs(9000000000) }}",
      "{{ 'a' * 1000000 | replace('', 'b' * 1000000) }}",
      "{{ 10 ** 10 ** 10 }}",
      "{{ [1] | batch(9000000000, 0) | list }}",
      "{{ [1] | slice(9000000000) | list }}",
      grow("[1]", "ns.x | map('string')", 1000) + "{{ ns.x | list }}",
      grow("none", "ns", 1) + "{{ ns }}",
      "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% macro f() %}{% call f() %}{% endcall %}{% endmacro %}{{ f() }}",
      "{% block a %}{{ self.a() }}{% endblock %}",
      "{{ 'a' | indent('x' * 60000000) }}{{ 'a\n' * 1000000 | indent('x' * 6000000) }}",
  };
  for (const std::string& source : greedy) {
    CAPTURE(source.substr(0, 200));
    CHECK(error_of(source).code == ErrorCode::invalid_argument);
  }
  std::string blocks;
  for (int i = 0; i < 5000; ++i)
    blocks += "{% if 1 %}";
  CHECK(error_of(blocks).message.find("nested") != std::string::npos);
  CHECK(error_of(std::string(limits::template_bytes_max + 1, 'x')).code == ErrorCode::corrupt);
}

TEST_CASE("what holds itself is let go") {
  CHECK(render("{% set a = namespace() %}{% set a.b = [a] | map(attribute='b') | unique %}"
               "{% for x in a.b %}{% set a.l = loop %}{{ loop.changed(loop) }}{% endfor %}")
            .value_or("") == "True");
  CHECK(render("{% set a = namespace() %}{% set a.b = a %}{% set a.c = [a] %}{{ a.b.c | length }}")
            .value_or("") == "1");
}

TEST_CASE("text that is no UTF-8 is read as U+FFFD") {
  const std::vector<ChatMessage> broken{{"us\xFF"
                                         "er",
                                         "a\xC3"}};
  CHECK(render("{% for m in messages %}{{ m.role ~ m.content | length }}{% endfor %}\xFF", broken)
            .value_or("") == "us\uFFFDer2\uFFFD");
}

TEST_CASE("the plain format names who speaks, and says what ends an answer") {
  const ChatTemplate plain = ChatTemplate::plain("<s>");
  const std::vector<ChatMessage> talk{
      {"system", "Be brief. "}, {"user", "Hi"}, {"assistant", " Hello\n"}, {"user", "Bye"}};
  CHECK(plain.render(talk, true, {}).value() ==
        "<s>Be brief.\n\nUser: Hi\n\nAssistant: Hello\n\nUser: Bye\n\nAssistant:");
  CHECK(plain.render(talk, false, {}).value().ends_with("User: Bye\n\n"));
  CHECK(plain.stops() == std::vector<std::string>{"\nUser:"});
  CHECK(ChatTemplate::parse("t", "x")->stops().empty());
}
