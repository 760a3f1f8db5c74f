#include "apps/console/json_text.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

namespace paceline::apps {
namespace json = boost::json;

namespace {

bool has_fractions(const json::value& value);

bool has_fractions(const json::object& object) {
  return std::any_of(object.begin(), object.end(),
                     [](const auto& field) { return has_fractions(field.value()); });
}

bool has_fractions(const json::value& value) {
  if (const auto* array = value.if_array())
    return std::any_of(array->begin(), array->end(),
                       [](const json::value& each) { return has_fractions(each); });
  if (const auto* object = value.if_object())
    return has_fractions(*object);
  return value.is_double();
}

void write(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  const auto begin = out.size();
  fmt::format_to(std::back_inserter(out), "{}", number);
  if (out.find_first_of(".e", begin) == std::string::npos)
    out += ".0";
}

void write(std::string& out, const json::value& value);

void write(std::string& out, const json::array& array) {
  out += '[';
  for (const json::value& each : array) {
    if (&each != array.data())
      out += ',';
    write(out, each);
  }
  out += ']';
}

void write(std::string& out, const json::object& object) {
  out += '{';
  for (const auto& field : object) {
    if (&field != object.begin())
      out += ',';
    out += json::serialize(field.key()) + ':';
    write(out, field.value());
  }
  out += '}';
}

/// Writes a value. Parts without such numbers are left to Boost, which is faster.
void write(std::string& out, const json::value& value) {
  if (value.is_double())
    write(out, value.get_double());
  else if (!has_fractions(value))
    out += json::serialize(value);
  else if (const auto* array = value.if_array())
    write(out, *array);
  else
    write(out, value.get_object());
}

} // namespace

std::string json_text(const json::value& value) {
  std::string out;
  write(out, value);
  return out;
}

std::string json_text(const json::object& object) {
  if (!has_fractions(object))
    return json::serialize(object);
  std::string out;
  write(out, object);
  return out;
}

} // namespace paceline::apps
