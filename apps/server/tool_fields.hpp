// The functions that a request lets its model call.
#pragma once

#include "apps/server/fields.hpp"
#include "text/tool_format.hpp"

#include <string>
#include <vector>

namespace paceline::apps::serve {

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
/// the tool itself, as responses have them.
enum class ToolShape { nested, flat };

/// Reads tools, tool_choice and parallel_tool_calls. A choice by name leaves that function alone,
/// and `required`.
Tools read_tools(Fields& fields, ToolShape shape);

/// Returns tools as templates know them. tools: a list that `read_tools` has read.
boost::json::value nested_tools(const boost::json::value& tools, ToolShape shape);

} // namespace paceline::apps::serve
