// The functions that a model may call, as JSON lists them.
#pragma once

#include "text/tool_format.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace paceline::apps {

/// What the answers of one request may call.
struct Tools {
  enum class Choice { automatic, none, required };

  std::vector<text::ToolFunction> functions;
  Choice choice = Choice::automatic;
  bool parallel = true; ///< An answer may have several calls.

  /// Whether the answer may have calls.
  bool callable() const { return !functions.empty() && choice != Choice::none; }
  std::size_t bytes() const;
};

/// Says where a function's name and schema are: in a member of its tool, as chats have them, or in
/// the tool itself, as responses have them. `either`: in whichever has them, and a function may
/// lack its type.
enum class ToolShape { nested, flat, either };

/// What is wrong with a field of a list, and how to mend it.
struct WrongField {
  std::string field;   ///< "tools[0].function.name"
  std::string message; ///< It begins with the field.
};

/// Reads the list. name: the field that it is in.
tl::expected<std::vector<text::ToolFunction>, WrongField>
read_tool_list(const boost::json::value& list, ToolShape shape, const std::string& name);

/// Returns the tools as templates know them. tools: a list that `read_tool_list` has read.
boost::json::array nested_tools(const boost::json::value& tools);

} // namespace paceline::apps
