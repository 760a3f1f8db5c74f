#include "models/checkpoint/gguf_translation.hpp"

#include "models/limits.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <fmt/format.h>

namespace paceline::models {
namespace json = boost::json;
namespace {

/// Converts a value. A list with the same number for every layer becomes that number.
json::value json_of(const GgufValue& value) {
  if (const auto integer = value.integer())
    return *integer;
  if (const auto number = value.number())
    return *number;
  if (const auto flag = value.boolean())
    return *flag;
  if (const auto text = value.string())
    return json::string(*text);
  const auto list = value.integers();
  const bool alike = list && !list->empty() &&
                     std::ranges::all_of(*list, [&](auto each) { return each == list->front(); });
  return alike ? json::value(list->front()) : json::array();
}

} // namespace

void GgufTranslation::wrong(const std::string& what, ErrorCode code, std::string_view hint) {
  if (!error_)
    error_ = files.wrong(what, {}, code, hint).value();
}

std::string GgufTranslation::key(std::string_view below) const {
  return fmt::format("{}.{}", architecture.name, below);
}

void GgufTranslation::put(json::object& into, const GgufKey& entry) {
  spelled[entry.config] = key(entry.key);
  if (const GgufValue* value = find(entry.key))
    into[entry.config] = json_of(*value);
}

std::int64_t GgufTranslation::stated(const char* name) const {
  const json::value* value = config.if_contains(name);
  return value && value->is_int64() ? value->get_int64() : 0;
}

double GgufTranslation::number(std::string_view below, double absent) {
  const auto out = files.number(key(below));
  if (!out && !error_)
    error_ = out.error();
  return out ? out->value_or(absent) : absent;
}

std::int64_t GgufTranslation::length(std::string_view below, std::int64_t absent) {
  const auto out = files.integer(key(below));
  if (!out && !error_)
    error_ = out.error();
  return out ? out->value_or(absent) : absent;
}

std::optional<std::size_t> GgufTranslation::layers() {
  const std::int64_t count = stated("num_hidden_layers");
  if (count >= 1 && count <= limits::layers_max)
    return std::size_t(count);
  wrong(fmt::format("{} is not between 1 and {}", key("block_count"), limits::layers_max));
  return {};
}

std::vector<std::int64_t> GgufTranslation::for_layers(std::string_view below, std::size_t layers) {
  const GgufValue* value = find(below);
  if (const auto one = value ? value->integer() : std::nullopt)
    return std::vector<std::int64_t>(layers, *one);
  const auto list = value ? value->integers() : std::nullopt;
  if (!list || list->size() != layers) {
    wrong(key(below) + " does not list every layer");
    return {};
  }
  return *list;
}

void GgufTranslation::check_same(std::string_view below, double length) {
  if (number(below, length) != length)
    wrong(key(below) + " is another than that of keys, which is not known", ErrorCode::unsupported,
          "use a model whose keys, values and rotations have one length");
}

} // namespace paceline::models
