#include "apps/console/chat/tool_list.hpp"

#include "apps/console/limits.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace paceline::apps {
namespace json = boost::json;
namespace {

using Functions = std::vector<text::ToolFunction>;

tl::unexpected<WrongField> wrong_field(const std::string& field, std::string_view wanted) {
  return tl::unexpected(WrongField{field, fmt::format("{} must be {}", field, wanted)});
}

/// Returns a member; null counts as missing.
const json::value* member(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value && !value->is_null() ? value : nullptr;
}

bool is_function_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= limits::tool_name_bytes_max &&
         std::ranges::all_of(text, fits);
}

/// Reads {"name", "description", "parameters", "strict"}. path: the object's.
tl::expected<text::ToolFunction, WrongField> read_function(const json::object& object,
                                                           const std::string& path) {
  text::ToolFunction function;
  const auto* name = member(object, "name");
  if (!name || !name->is_string() || !is_function_name(name->get_string()))
    return wrong_field(path + ".name", fmt::format("1 to {} letters, digits, '_', '-' and '.'",
                                                   limits::tool_name_bytes_max));
  function.name = std::string(name->get_string());
  if (const auto* description = member(object, "description");
      description && !description->is_string())
    return wrong_field(path + ".description", "a string");
  const auto* strict = member(object, "strict");
  if (strict && !strict->is_bool())
    return wrong_field(path + ".strict", "true or false");
  function.strict = strict && strict->get_bool();
  const auto* parameters = member(object, "parameters");
  if (parameters && !parameters->is_object())
    return wrong_field(path + ".parameters", "an object");
  if (parameters)
    function.parameters = json::serialize(*parameters);
  return function;
}

/// Reads {"type": "function"}, and the function that it has or is.
tl::expected<text::ToolFunction, WrongField> read_tool(const json::object& tool, ToolShape shape,
                                                       const std::string& path) {
  const auto* inner = member(tool, "function");
  const auto* type = member(tool, "type");
  const bool flat = shape == ToolShape::flat || (shape == ToolShape::either && !inner);
  const bool lacks_type = shape == ToolShape::either && !type;
  if (!lacks_type && (!type || !type->is_string() || type->get_string() != "function"))
    return wrong_field(path + ".type", "\"function\"");
  if (flat)
    return read_function(tool, path);
  if (!inner || !inner->is_object())
    return wrong_field(path + ".function", "an object with a name");
  return read_function(inner->get_object(), path + ".function");
}

std::size_t bytes_of(const Functions& functions) {
  std::size_t sum = 0;
  for (const text::ToolFunction& function : functions)
    sum += function.name.size() + function.parameters.size();
  return sum;
}

} // namespace

std::size_t Tools::bytes() const {
  return bytes_of(functions);
}

tl::expected<Functions, WrongField> read_tool_list(const json::value& list, ToolShape shape,
                                                   const std::string& name) {
  const auto* tools = list.if_array();
  if (!tools || tools->size() > limits::tools_max)
    return wrong_field(name, fmt::format("a list of at most {} functions", limits::tools_max));
  Functions functions;
  for (const json::value& one : *tools) {
    const std::string path = fmt::format("{}[{}]", name, functions.size());
    const auto* object = one.if_object();
    if (!object)
      return wrong_field(path, "an object");
    auto function = read_tool(*object, shape, path);
    if (!function)
      return tl::unexpected(std::move(function.error()));
    if (std::ranges::find(functions, function->name, &text::ToolFunction::name) != functions.end())
      return wrong_field(path + (member(*object, "function") ? ".function" : ".name"),
                         fmt::format("named as no other is: {} was there", function->name));
    functions.push_back(std::move(*function));
  }
  if (bytes_of(functions) > limits::tools_bytes_max)
    return wrong_field(name, fmt::format("at most {} bytes of schemas", limits::tools_bytes_max));
  return functions;
}

json::array nested_tools(const json::value& tools) {
  json::array all;
  for (const json::value& tool : tools.as_array()) {
    if (tool.as_object().contains("function")) {
      all.push_back(tool);
      continue;
    }
    json::object function = tool.as_object();
    function.erase("type");
    all.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
  }
  return all;
}

} // namespace paceline::apps
