#include "apps/server/tool_fields.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <string_view>
#include <utility>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

void read_functions(Fields& fields, Tools& tools, ToolShape shape) {
  const auto* list = fields.find("tools");
  if (!list)
    return;
  auto read = read_tool_list(*list, shape, "tools");
  if (read)
    tools.functions = std::move(*read);
  else
    fields.wrong(invalid_value(std::move(read.error().field), std::move(read.error().message)));
}

/// Leaves the function that {"type": "function", "function": {"name"}} names, or {"type", "name"}.
void choose(Fields& fields, Tools& tools, const json::object& named, ToolShape shape) {
  Fields choice(named, "tool_choice");
  if (choice.text("type") != "function")
    choice.wrong("type", "\"function\"");
  const auto* object = shape == ToolShape::flat ? &named : choice.nested("function");
  const auto* name = object ? object->if_contains("name") : nullptr;
  const auto is_it = [&](const text::ToolFunction& one) {
    return name && name->is_string() && one.name == std::string_view(name->get_string());
  };
  const auto at = std::ranges::find_if(tools.functions, is_it);
  if (at == tools.functions.end())
    choice.wrong(shape == ToolShape::flat ? "name" : "function", "named as one of tools");
  else
    tools.functions = {text::ToolFunction(*at)};
  fields.wrong(choice.error());
  tools.choice = Tools::Choice::required;
  tools.parallel = false;
}

void read_tool_choice(Fields& fields, Tools& tools, ToolShape shape) {
  const auto* value = fields.find("tool_choice");
  if (!value)
    return;
  const auto* text = value->if_string();
  if (const auto* object = value->if_object())
    choose(fields, tools, *object, shape);
  else if (text && *text == "required")
    tools.choice = Tools::Choice::required;
  else if (text && *text == "none")
    tools.choice = Tools::Choice::none;
  else if (!text || *text != "auto")
    fields.wrong("tool_choice", "auto, none, required, or an object that names a function");
  if (tools.choice == Tools::Choice::required && tools.functions.empty())
    fields.wrong("tool_choice", "left out where there are no tools");
}

} // namespace

Tools read_tools(Fields& fields, ToolShape shape) {
  Tools tools;
  read_functions(fields, tools, shape);
  tools.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  read_tool_choice(fields, tools, shape);
  return tools;
}

} // namespace paceline::apps::serve
