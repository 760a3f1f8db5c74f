#include "text/chat_template.hpp"

#include "text/chat_template/conversation.hpp"
#include "text/chat_template/interpreter.hpp"
#include "text/chat_template/parser.hpp"
#include "text/json.hpp"
#include "text/limits.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text {
namespace {

constexpr const char* plain_format = R"({{ opening }}{% for message in messages -%}
{% if message.role == 'system' %}{{ message.content | trim }}
{% else %}{{ message.role | capitalize }}: {{ (message.content or '') | trim }}
{% endif %}
{{ '\n' }}{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %})";

/// What ends an answer: the model begins to write the other side's part.
const std::vector<std::string> plain_stops{"\nUser:"};

Error error_of(const jinja::Failure& failure, const std::string& name, int line) {
  const bool unsupported = failure.code == ErrorCode::unsupported;
  return {failure.code,
          fmt::format("{}, line {}: {}{}", name, failure.line > 0 ? failure.line : line,
                      shown(failure.what, 400), unsupported ? " is not supported" : ""),
          unsupported ? "put the conversation into a prompt yourself, or change the template"
                      : "change the conversation, or mend the template"};
}

/// Collects the template's variables. own: those of the template's checkpoint; `given` ones replace
/// them.
jinja::Members globals(jinja::Value messages, bool add_generation_prompt,
                       const jinja::Members& given, const ChatTemplate::Variables& own) {
  using jinja::Value;
  jinja::Members all{{"messages", std::move(messages)},
                     {"add_generation_prompt", Value(add_generation_prompt)},
                     {"tools", Value(jinja::None{})},
                     {"documents", Value(jinja::None{})}};
  for (const auto& [name, text] : own)
    if (std::none_of(given.begin(), given.end(), [&](const auto& g) { return g.first == name; }))
      all.emplace_back(name, Value(text));
  all.insert(all.end(), given.begin(), given.end());
  return all;
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
  out.source_ = source;
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
  jinja::ConversationReader reader;
  const auto given = reader.variables(variables);
  if (!given)
    return tl::unexpected(given.error());
  auto conversation = reader.messages(messages);
  if (!conversation)
    return tl::unexpected(conversation.error());
  jinja::Interpreter interpreter(now);
  try {
    return interpreter.run(
        *template_, globals(*std::move(conversation), add_generation_prompt, *given, variables_));
  } catch (const jinja::Failure& failure) {
    return tl::unexpected(error_of(failure, template_->name, interpreter.line()));
  }
}

} // namespace paceline::text
