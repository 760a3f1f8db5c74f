#include "constraints/schema_check.hpp"

#include "text/json.hpp"

#include <algorithm>
#include <boost/json/value.hpp>
#include <cmath>
#include <fmt/format.h>
#include <span>
#include <string_view>

namespace paceline::constraints {
namespace {

namespace json = boost::json;
using Names = std::span<const std::string_view>;

/// Keywords that say nothing about what is valid.
constexpr std::string_view annotations[] = {
    "$schema",  "$id",         "$comment",      "title",           "description",     "default",
    "examples", "example",     "deprecated",    "readOnly",        "writeOnly",       "format",
    "$defs",    "definitions", "discriminator", "contentEncoding", "contentMediaType"};
/// Keywords that stand alone: what stands beside one would not count.
constexpr std::string_view alternatives[] = {"$ref", "anyOf", "oneOf", "allOf"};
constexpr std::string_view values[] = {"const", "enum"};
constexpr std::string_view assertions[] = {"type",
                                           "properties",
                                           "required",
                                           "additionalProperties",
                                           "patternProperties",
                                           "propertyNames",
                                           "minProperties",
                                           "maxProperties",
                                           "items",
                                           "prefixItems",
                                           "minItems",
                                           "maxItems",
                                           "minLength",
                                           "maxLength",
                                           "pattern",
                                           "minimum",
                                           "maximum",
                                           "exclusiveMinimum",
                                           "exclusiveMaximum",
                                           "multipleOf",
                                           "unevaluatedProperties",
                                           "unevaluatedItems"};
/// Keywords that tell the type if none is named. Other assertions are ignored without a type.
constexpr std::string_view telling[] = {"type",
                                        "properties",
                                        "additionalProperties",
                                        "items",
                                        "prefixItems",
                                        "unevaluatedProperties",
                                        "unevaluatedItems"};
/// Keywords whose value is a map of schemas by name, one schema, or a list of schemas.
constexpr std::string_view maps[] = {"properties", "patternProperties", "$defs", "definitions"};
constexpr std::string_view single[] = {"items", "additionalProperties", "propertyNames",
                                       "unevaluatedItems", "unevaluatedProperties"};
constexpr std::string_view lists[] = {"anyOf", "oneOf", "allOf", "prefixItems", "items"};

bool among(Names names, std::string_view key) {
  return std::ranges::find(names, key) != names.end();
}

tl::unexpected<Error> unsupported(std::string what) {
  return fail(ErrorCode::unsupported, "the JSON schema has " + std::move(what),
              "leave that out: answers would not be held to it");
}

bool is_of(std::string_view type, const json::value& value) {
  if (type == "integer")
    return value.is_int64() || value.is_uint64() ||
           (value.is_double() && value.get_double() == std::trunc(value.get_double()));
  return (type == "number" && value.is_number()) || (type == "string" && value.is_string()) ||
         (type == "boolean" && value.is_bool()) || (type == "null" && value.is_null()) ||
         (type == "object" && value.is_object()) || (type == "array" && value.is_array());
}

/// Returns whether the value is of the type, which is a name or a list of names.
bool is_of(const json::value& type, const json::value& value) {
  if (const auto* name = type.if_string())
    return is_of(std::string_view(*name), value);
  const auto* names = type.if_array();
  return names && std::ranges::any_of(*names, [&value](const json::value& name) {
           return name.is_string() && is_of(std::string_view(name.get_string()), value);
         });
}

/// Returns whether all values of a list are of the type that stands beside it, if one does.
bool agrees(const json::object& schema, std::string_view key) {
  const json::value* type = schema.if_contains("type");
  const json::value& given = schema.at(key);
  if (!type)
    return true;
  if (key == "const")
    return is_of(*type, given);
  const auto* list = given.if_array();
  return list && std::ranges::all_of(*list, [type](const auto& one) { return is_of(*type, one); });
}

Result<void> check_beside(const json::object& schema, std::string_view chief) {
  for (const auto& [key, value] : schema) {
    const std::string_view name = key;
    const bool of_value = among(values, chief) && name == "type";
    if (name != chief && !of_value && !among(annotations, name))
      return unsupported(fmt::format("'{}' beside '{}'", text::shown(name), chief));
  }
  if (among(values, chief) && !agrees(schema, chief))
    return unsupported(fmt::format("a value in '{}' that is not of its 'type'", chief));
  return {};
}

/// Checks that `properties` describes each required name: others would not be required.
Result<void> check_required(const json::object& schema) {
  const auto* properties =
      schema.contains("properties") ? schema.at("properties").if_object() : nullptr;
  const auto* names = schema.at("required").if_array();
  for (std::size_t i = 0; names && i < names->size(); ++i)
    if (const auto* name = names->at(i).if_string();
        name && !(properties && properties->contains(*name)))
      return unsupported(
          fmt::format("'{}' among 'required', which is not in 'properties'", text::shown(*name)));
  return {};
}

Result<void> check_keyword(const json::object& schema, std::string_view key) {
  if (among(alternatives, key) || among(values, key))
    return check_beside(schema, key);
  if (key == "uniqueItems" && schema.at(key) == false)
    return {};
  if (among(annotations, key))
    return {};
  if (key == "required")
    return check_required(schema);
  const auto tells = [&schema](std::string_view name) { return schema.contains(name); };
  if (among(assertions, key) && std::ranges::any_of(telling, tells))
    return {};
  if (among(assertions, key))
    return unsupported(fmt::format("'{}' without a 'type'", key));
  return unsupported(fmt::format("the keyword '{}'", text::shown(key)));
}

Result<void> check_within(std::string_view key, const json::value& value) {
  const auto check = [](const json::value& one) {
    const auto* inner = one.if_object();
    return inner ? check_schema(*inner) : Result<void>();
  };
  Result<void> fits;
  if (const auto* object = value.if_object(); object && among(maps, key)) {
    for (const auto& [name, one] : *object)
      if (fits = check(one); !fits)
        return fits;
  } else if (const auto* array = value.if_array(); array && among(lists, key)) {
    for (const json::value& one : *array)
      if (fits = check(one); !fits)
        return fits;
  } else if (among(single, key)) {
    return check(value);
  }
  return fits;
}

} // namespace

Result<void> check_schema(const json::object& schema) {
  for (const auto& [key, value] : schema) {
    auto fits = check_keyword(schema, key);
    if (fits)
      fits = check_within(key, value);
    if (!fits)
      return fits;
  }
  return {};
}

} // namespace paceline::constraints
