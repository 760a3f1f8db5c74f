#include "apps/server/fields.hpp"

#include "apps/console/limits.hpp"

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parser.hpp>
#include <cmath>
#include <fmt/format.h>
#include <new>

namespace paceline::apps::serve {
namespace json = boost::json;

const json::value* Fields::find(std::string_view name) const {
  const auto* value = object_->if_contains(name);
  return value && !value->is_null() ? value : nullptr;
}

std::string Fields::path(std::string_view name) const {
  return within_.empty() ? std::string(name) : fmt::format("{}.{}", within_, name);
}

void Fields::wrong(std::string_view name, const std::string& wanted) {
  wrong(invalid_value(path(name), fmt::format("{} must be {}", path(name), wanted)));
}

void Fields::wrong(std::optional<ApiError> error) {
  if (!error_)
    error_ = std::move(error);
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const auto* value = find(name);
  if (!value)
    return std::nullopt;
  if (const auto* flag = value->if_bool())
    return *flag;
  wrong(name, "true or false");
  return std::nullopt;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t low,
                                            std::int64_t high) {
  const auto* value = find(name);
  if (!value)
    return std::nullopt;
  const auto* given = value->if_int64();
  if (given && *given >= low && *given <= high)
    return *given;
  wrong(name, fmt::format("a whole number from {} to {}", low, high));
  return std::nullopt;
}

std::optional<double> Fields::number(std::string_view name, const base::NumberRange& range) {
  if (range.whole) {
    const auto given = integer(name, std::int64_t(range.least), std::int64_t(range.most));
    return given ? std::optional(double(*given)) : std::nullopt;
  }
  const auto* value = find(name);
  if (!value)
    return std::nullopt;
  json::error_code not_a_number;
  const double given = value->is_number() ? value->to_number<double>(not_a_number) : std::nan("");
  if (!not_a_number && range.allows(given))
    return given;
  wrong(name, range.wanted());
  return std::nullopt;
}

std::optional<std::string> Fields::text(std::string_view name) {
  const auto* value = find(name);
  if (!value)
    return std::nullopt;
  if (const auto* given = value->if_string())
    return std::string(*given);
  wrong(name, "a string");
  return std::nullopt;
}

const json::object* Fields::nested(std::string_view name) {
  const auto* value = find(name);
  if (!value)
    return nullptr;
  const auto* object = value->if_object();
  if (!object)
    wrong(name, "an object");
  return object;
}

namespace {

json::value parse(const std::string& body, const json::storage_ptr& memory,
                  json::error_code& wrong) {
  json::parse_options options;
  options.max_depth = std::size_t(limits::json_depth_max);
  json::parser parser(memory, options);
  parser.reset(
      json::make_shared_resource<json::monotonic_resource>(limits::json_block_bytes, memory));
  parser.write(body, wrong);
  return wrong ? json::value() : parser.release();
}

} // namespace

ApiResult<json::object> parse_object(const std::string& body, const json::storage_ptr& memory) {
  json::error_code wrong;
  try {
    json::value value = parse(body, memory, wrong);
    if (!wrong && value.is_object())
      return std::move(value.get_object());
  } catch (const std::bad_alloc&) {
    return refuse(no_request_memory());
  }
  if (wrong)
    return refuse({.status = 400,
                   .message = "the body is not valid JSON (" + wrong.message() +
                              "): send one JSON object in UTF-8",
                   .code = "invalid_json"});
  return refuse({.status = 400,
                 .message = "the body is no JSON object: send {\"prompt\": ...} or the like",
                 .code = "invalid_json"});
}

} // namespace paceline::apps::serve
