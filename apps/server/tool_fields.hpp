// The functions that a request lets its model call.
#pragma once

#include "apps/console/chat/tool_list.hpp"
#include "apps/server/fields.hpp"

namespace paceline::apps::serve {

/// Reads tools, tool_choice and parallel_tool_calls. A choice by name leaves that function alone,
/// and `required`.
Tools read_tools(Fields& fields, ToolShape shape);

} // namespace paceline::apps::serve
