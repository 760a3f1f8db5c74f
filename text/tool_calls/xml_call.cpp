// Calls whose arguments stand between tags, each by itself: Qwen 3 Coder's.
#include "text/limits.hpp"
#include "text/tool_calls/call_reader.hpp"
#include "text/tool_calls/json_value.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

namespace paceline::text {
namespace json = boost::json;
namespace {

constexpr std::string_view value_end = "</parameter>";
constexpr std::string_view value_end_on_new_line = "\n</parameter>";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back()))
    text.remove_suffix(1);
  return text;
}

/// What a schema says of an argument's value.
enum class Value {
  text,     ///< Any text, which counts as it is.
  words,    ///< A text of a certain form, without the blanks beside it.
  anything, ///< JSON, or a text that is none.
};
Value kind_of(const std::string& schema, std::string_view argument) {
  json::error_code failed;
  const json::value read = json::parse(schema, failed);
  const auto find = [](const json::value* in, std::string_view name) {
    const auto* object = in ? in->if_object() : nullptr;
    return object ? object->if_contains(name) : nullptr;
  };
  const json::value* about = find(find(failed ? nullptr : &read, "properties"), argument);
  const json::value* type = find(about, "type");
  if (!type || *type != "string")
    return Value::anything;
  for (const char* form : {"enum", "const", "pattern", "format", "minLength", "maxLength"})
    if (find(about, form))
      return Value::words;
  return Value::text;
}

} // namespace

/// Reads the value of one argument. Returns false where the text ends within it.
Reading<bool> CallReader::xml_value(const ToolFunction& function, const std::string& name) {
  const Value kind = kind_of(function.parameters, name);
  const bool text = kind == Value::text;
  std::string value;
  co_await accept("\n");
  if (text)
    out_.arguments("\"");
  for (auto c = co_await in_.peek(); c; c = co_await in_.peek()) {
    if (*c == '\n' || *c == '<') {
      in_.hold(limits::call_head_bytes_max);
      const bool ends = co_await accept(*c == '<' ? value_end : value_end_on_new_line);
      if (ends) {
        out_.arguments(text                   ? "\""
                       : kind == Value::words ? json_text(trimmed(value))
                                              : json_of(value).value_or(json_text(value)));
        co_return true;
      }
      in_.release();
    }
    in_.skip();
    if (!text) {
      value += *c;
      continue;
    }
    const std::string shown = json_text(std::string_view(&*c, 1));
    out_.arguments(std::string_view(shown).substr(1, shown.size() - 2));
    in_.release();
  }
  co_return false;
}

Reading<bool> CallReader::xml_call() {
  const bool opened = co_await accept("<function=");
  if (!opened)
    co_return false;
  const std::string called = co_await name("_-.");
  const ToolFunction* callee = function(called);
  if (!callee)
    co_return false;
  const bool closed = co_await accept(">");
  if (!closed)
    co_return false;
  begin(called);
  std::string_view before = "{";
  for (;;) {
    in_.hold(limits::call_head_bytes_max);
    const auto from = in_.at();
    co_await blanks();
    const bool has_argument = co_await accept("<parameter=");
    if (!has_argument) {
      const bool ended = co_await accept("</function>");
      const auto more = co_await in_.peek();
      out_.arguments(before == "{" ? "{" : "");
      out_.arguments(ended || more ? "}" : ""); // a text that is cut short leaves arguments open
      out_.end_call();
      if (!ended)
        in_.go_back(from);
      co_return true;
    }
    const std::string argument = co_await name("_-.$");
    bool named = !argument.empty();
    if (named)
      named = co_await accept(">");
    if (!named) {
      in_.go_back(from);
      break;
    }
    out_.arguments(std::string(std::exchange(before, ", ")) + json_text(argument) + ": ");
    in_.release();
    const bool complete = co_await xml_value(*callee, argument);
    if (!complete)
      break;
  }
  out_.end_call();
  co_return true;
}

} // namespace paceline::text
