// How families of models write calls of functions, and what they thought before they answered.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paceline::text {

/// A function that an answer may call.
struct ToolFunction {
  std::string name{};
  std::string parameters{}; ///< The JSON schema of its arguments; empty: it takes none.
  bool strict = false;      ///< Arguments must fit the schema, and not only where that is possible.
};

/// The form in which a family writes calls. The names are vLLM's.
struct ToolFormat {
  enum class Body {
    json,    ///< {"name": f, "arguments": {...}}, or a list of such objects
    named,   ///< f[ARGS]{...}, or a list as above
    xml,     ///< <function=f><parameter=a>1</parameter></function>
    tags,    ///< f<arg_key>a</arg_key><arg_value>1</arg_value>
    python,  ///< [f(a=1), g()]
    dict,    ///< call:f{a:1,b:<|"|>text<|"|>}
    channel, ///< commentary to=functions.f <|constrain|>json<|message|>{...}
  };
  std::string_view name;
  Body body = Body::json;
  std::string_view opening{};               ///< Stands before a call, or before a list of calls.
  std::string_view closing{};               ///< Stands behind it; empty: nothing does.
  std::string_view arguments = "arguments"; ///< The member of a JSON object that has them.
  bool in_list = false; ///< A list of calls stands behind one opening. Else each call has its own.
  bool bare = false;    ///< Where an answer begins, a call may lack the opening.
};

/// The marks around a model's reasoning, which comes before its answer.
struct ReasoningFormat {
  std::string_view name;
  std::string_view opening;
  std::string_view closing;
  /// The answer is messages with headers, some of which are reasoning (OpenAI's harmony format).
  bool channels = false;
};

std::span<const ToolFormat> tool_formats();
std::span<const ReasoningFormat> reasoning_formats();
/// Null: there is none of that name.
const ToolFormat* tool_format(std::string_view name);
const ReasoningFormat* reasoning_format(std::string_view name);

/// Returns the format that a chat template asks its model for. Null: none that is known.
const ToolFormat* tool_format_of(std::string_view chat_template);
const ReasoningFormat* reasoning_format_of(std::string_view chat_template);
/// Returns whether a chat template shows its model the functions that it may call.
bool shows_tools(std::string_view chat_template);

} // namespace paceline::text
