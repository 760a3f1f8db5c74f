#include "apps/server/tool_fields.hpp"

#include "apps/console/limits.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace json = boost::json;
namespace {

bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= limits::tool_name_bytes_max &&
         std::ranges::all_of(text, fits);
}

/// Reads {"name", "description", "parameters", "strict"}.
text::ToolFunction read_function(Fields& inner) {
  text::ToolFunction function;
  function.name = inner.text("name").value_or("");
  if (!is_name(function.name))
    inner.wrong("name", fmt::format("1 to {} letters, digits, '_', '-' and '.'",
                                    limits::tool_name_bytes_max));
  inner.text("description");
  function.strict = inner.boolean("strict").value_or(false);
  if (const auto* parameters = inner.nested("parameters"))
    function.parameters = json::serialize(*parameters);
  return function;
}

/// Reads {"type": "function"}, and the function that it has or is.
text::ToolFunction read_tool(Fields& tool, ToolShape shape) {
  if (tool.text("type") != "function")
    tool.wrong("type", "\"function\"");
  if (shape == ToolShape::flat)
    return read_function(tool);
  const auto* object = tool.nested("function");
  if (!object) {
    tool.wrong("function", "an object with a name");
    return {};
  }
  Fields inner(*object, tool.path("function"));
  auto function = read_function(inner);
  tool.wrong(inner.error());
  return function;
}

void read_functions(Fields& fields, Tools& tools, ToolShape shape) {
  const auto* value = fields.find("tools");
  if (!value)
    return;
  const auto* list = value->if_array();
  if (!list || list->size() > limits::tools_max)
    return fields.wrong("tools", fmt::format("a list of at most {} functions", limits::tools_max));
  for (const json::value& one : *list) {
    const std::string name = fmt::format("tools[{}]", tools.functions.size());
    const auto* object = one.if_object();
    if (!object)
      return fields.wrong(invalid_value(name, name + " must be an object"));
    Fields tool(*object, name);
    auto function = read_tool(tool, shape);
    for (const text::ToolFunction& other : tools.functions)
      if (other.name == function.name)
        tool.wrong(shape == ToolShape::flat ? "name" : "function",
                   fmt::format("named as no other is: {} was there", other.name));
    fields.wrong(tool.error());
    tools.functions.push_back(std::move(function));
  }
  if (tools.bytes() > limits::tools_bytes_max)
    fields.wrong("tools", fmt::format("at most {} bytes of schemas", limits::tools_bytes_max));
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

std::size_t Tools::bytes() const {
  std::size_t sum = 0;
  for (const text::ToolFunction& function : functions)
    sum += function.name.size() + function.parameters.size();
  return sum;
}

Tools read_tools(Fields& fields, ToolShape shape) {
  Tools tools;
  read_functions(fields, tools, shape);
  tools.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  read_tool_choice(fields, tools, shape);
  return tools;
}

json::value nested_tools(const json::value& tools, ToolShape shape) {
  if (shape == ToolShape::nested)
    return tools;
  json::array all;
  for (const json::value& tool : tools.as_array()) {
    json::object function = tool.as_object();
    function.erase("type");
    all.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
  }
  return all;
}

} // namespace paceline::apps::serve
