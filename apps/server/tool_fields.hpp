// The functions that a chat's request lets its model call.
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

/// Reads tools, tool_choice and parallel_tool_calls. A choice by name leaves that function alone,
/// and `required`.
Tools read_tools(Fields& fields);

} // namespace paceline::apps::serve
