// Calls whose arguments stand between tags, each by itself: Qwen 3 Coder's and GLM's.
#include "text/limits.hpp"
#include "text/tool_calls/call_reader.hpp"
#include "text/tool_calls/json_value.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

namespace paceline::text {
namespace json = boost::json;
namespace {

/// What stands around the parts of a call.
struct Tags {
  std::string_view call; ///< Before the function's name, and behind it.
  std::string_view call_name_end;
  std::string_view argument; ///< Before an argument's name, and behind it.
  std::string_view argument_name_end;
  std::string_view value; ///< Before its value, and behind it.
  std::string_view value_end;
  std::string_view value_end_on_new_line; ///< Empty: lines are part of the value.
  std::string_view end;                   ///< Behind the call; empty: the closing mark is.
};
constexpr Tags xml{.call = "<function=",
                   .call_name_end = ">",
                   .argument = "<parameter=",
                   .argument_name_end = ">",
                   .value = "",
                   .value_end = "</parameter>",
                   .value_end_on_new_line = "\n</parameter>",
                   .end = "</function>"};
constexpr Tags keys{.call = "",
                    .call_name_end = "",
                    .argument = "<arg_key>",
                    .argument_name_end = "</arg_key>",
                    .value = "<arg_value>",
                    .value_end = "</arg_value>",
                    .value_end_on_new_line = "",
                    .end = ""};

const Tags& tags_of(const ToolFormat& format) {
  return format.body == ToolFormat::Body::xml ? xml : keys;
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
Reading<bool> CallReader::tagged_value(const ToolFunction& function, const std::string& name) {
  const Tags& tags = tags_of(format_);
  const bool in_lines = !tags.value_end_on_new_line.empty();
  const Value kind = kind_of(function.parameters, name);
  const bool text = kind == Value::text;
  std::string value;
  if (in_lines)
    co_await accept("\n");
  if (text)
    out_.arguments("\"");
  for (auto c = co_await in_.peek(); c; c = co_await in_.peek()) {
    if (*c == '<' || (in_lines && *c == '\n')) {
      in_.hold(limits::call_head_bytes_max);
      const bool ends = co_await accept(*c == '<' ? tags.value_end : tags.value_end_on_new_line);
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

Reading<std::string> CallReader::tagged_name() {
  const Tags& tags = tags_of(format_);
  const bool begins = co_await accept(tags.argument);
  if (!begins)
    co_return "";
  std::string argument = co_await name("_-.$");
  const bool ends = co_await accept(tags.argument_name_end);
  if (!ends)
    co_return "";
  if (tags.value.empty())
    co_return argument;
  co_await blanks();
  const bool valued = co_await accept(tags.value);
  co_return valued ? argument : "";
}

/// Reads a call. One that is cut short has arguments that stay open.
Reading<bool> CallReader::tagged_call() {
  const Tags& tags = tags_of(format_);
  const bool opened = co_await accept(tags.call);
  if (!opened)
    co_return false;
  const std::string called = co_await name("_-.");
  const ToolFunction* callee = function(called);
  if (!callee)
    co_return false;
  const bool named = co_await accept(tags.call_name_end);
  if (!named)
    co_return false;
  if (tags.end.empty()) { // An argument, or the closing mark, tells that this was the name.
    const auto behind = in_.at();
    co_await blanks();
    bool told = co_await accept(tags.argument);
    if (!told)
      told = co_await accept(format_.closing);
    if (!told)
      co_return false;
    in_.go_back(behind);
  }
  begin(called);
  out_.arguments("{");
  for (bool first = true;; first = false) {
    in_.hold(limits::call_head_bytes_max);
    const auto from = in_.at();
    co_await blanks();
    const auto inside = in_.at();
    const std::string argument = co_await tagged_name();
    if (argument.empty()) {
      in_.go_back(inside);
      bool ended = !tags.end.empty();
      if (ended)
        ended = co_await accept(tags.end);
      const auto more = co_await in_.peek();
      out_.arguments(ended || more ? "}" : "");
      out_.end_call();
      if (!ended)
        in_.go_back(from);
      co_return true;
    }
    out_.arguments((first ? "" : ", ") + json_text(argument) + ": ");
    in_.release();
    const bool complete = co_await tagged_value(*callee, argument);
    if (!complete)
      break;
  }
  out_.end_call();
  co_return true;
}

} // namespace paceline::text
