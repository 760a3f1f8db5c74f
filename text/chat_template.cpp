#include "text/chat_template.hpp"

#include "text/chat_template/interpreter.hpp"
#include "text/chat_template/parser.hpp"
#include "text/json.hpp"
#include "text/limits.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <fmt/format.h>

namespace paceline::text {
namespace {

namespace json = boost::json;

constexpr const char* plain_format = R"({{ opening }}{% for message in messages -%}
{% if message.role == 'system' %}{{ message.content | trim }}
{% else %}{{ message.role | capitalize }}: {{ message.content | trim }}
{% endif %}
{{ '\n' }}{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %})";

/// The end of whatever the model writes as the other's part.
const std::vector<std::string> plain_stops{"\nUser:"};

/// JSON as Python reads it.
jinja::Value value_of(const json::value& from) {
  using jinja::Value;
  switch (from.kind()) {
  case json::kind::null: return Value(jinja::None{});
  case json::kind::bool_: return Value(from.get_bool());
  case json::kind::int64: return Value(from.get_int64());
  case json::kind::uint64: return Value(double(from.get_uint64()));
  case json::kind::double_: return Value(from.get_double());
  case json::kind::string: return Value(sanitize_utf8(std::string_view(from.get_string())));
  case json::kind::array: {
    jinja::List items;
    for (const json::value& each : from.get_array())
      items.push_back(value_of(each));
    return Value::list(std::move(items));
  }
  case json::kind::object: {
    jinja::Members members;
    for (const auto& [name, each] : from.get_object())
      members.emplace_back(std::string(name), value_of(each));
    return Value::dict(std::move(members));
  }
  }
  return Value(jinja::None{});
}

Error error_of(const jinja::Failure& failure, const std::string& name, int line) {
  const bool unsupported = failure.code == ErrorCode::unsupported;
  return {failure.code,
          fmt::format("{}, line {}: {}{}", name, failure.line > 0 ? failure.line : line,
                      shown(failure.what, 400), unsupported ? " is not supported" : ""),
          unsupported ? "put the conversation into a prompt yourself, or change the template"
                      : "change the conversation, or mend the template"};
}

} // namespace

Result<ChatTemplate> ChatTemplate::parse(const std::string& name, std::string_view source,
                                         Variables variables) {
  if (source.size() > limits::template_bytes_max)
    return fail(ErrorCode::corrupt, name + " is too long for a chat template",
                fmt::format("use one of at most {} bytes", limits::template_bytes_max));
  ChatTemplate out;
  try {
    out.template_ =
        std::make_shared<const jinja::Template>(jinja::parse_template(name, sanitize_utf8(source)));
  } catch (const jinja::Failure& failure) {
    return tl::unexpected(error_of(failure, name, 1));
  }
  out.variables_ = std::move(variables);
  return out;
}

ChatTemplate ChatTemplate::plain(const std::string& opening) {
  auto out = parse("the plain chat format", plain_format, {{"opening", opening}});
  out->stops_ = plain_stops;
  return *std::move(out);
}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages,
                                         bool add_generation_prompt, const std::tm& now,
                                         const TemplateVariables& variables) const {
  using jinja::Value;
  jinja::Members given;
  for (const auto& [name, text] : variables) {
    json::error_code wrong;
    given.emplace_back(name, value_of(json::parse(text, wrong)));
    if (wrong)
      return fail(ErrorCode::invalid_argument, fmt::format("the variable {} is no JSON", name),
                  "give its value as JSON");
  }
  jinja::Interpreter interpreter(now);
  try {
    jinja::List list;
    for (const ChatMessage& message : messages)
      list.push_back(Value::dict({{"role", Value(sanitize_utf8(message.role))},
                                  {"content", Value(sanitize_utf8(message.content))}}));
    jinja::Members globals{{"messages", Value::list(std::move(list))},
                           {"add_generation_prompt", Value(add_generation_prompt)},
                           {"tools", Value(jinja::None{})},
                           {"documents", Value(jinja::None{})}};
    const auto is_given = [&](const std::string& name) {
      return std::any_of(given.begin(), given.end(),
                         [&](const auto& g) { return g.first == name; });
    };
    for (const auto& [name, text] : variables_)
      if (!is_given(name))
        globals.emplace_back(name, Value(text));
    globals.insert(globals.end(), given.begin(), given.end());
    return interpreter.run(*template_, std::move(globals));
  } catch (const jinja::Failure& failure) {
    return tl::unexpected(error_of(failure, template_->name, interpreter.line()));
  }
}

} // namespace paceline::text
