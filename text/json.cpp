#include "text/json.hpp"

#include "text/limits.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <fmt/format.h>
#include <iterator>

namespace paceline::text {
namespace json = boost::json;
namespace {

constexpr const char* damaged_hint = "the file is damaged or no checkpoint's; download it again";

} // namespace

std::string shown(std::string_view name, std::size_t longest) {
  std::string out;
  for (const char c : name.substr(0, longest)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return name.size() > longest ? out + "..." : out;
}

Result<json::object> parse_json_object(const std::string& where, std::string_view text) {
  if (text.size() > limits::json_file_bytes_max)
    return fail(ErrorCode::corrupt,
                fmt::format("{} has {} bytes, more than {}", where, text.size(),
                            limits::json_file_bytes_max),
                damaged_hint);
  json::parse_options options;
  options.max_depth = limits::json_depth_max;
  json::error_code failed;
  json::value value = json::parse({text.data(), text.size()}, failed, {}, options);
  if (failed)
    return fail(ErrorCode::corrupt, fmt::format("{} is not JSON ({})", where, failed.message()),
                damaged_hint);
  if (!value.is_object())
    return fail(ErrorCode::corrupt, where + " holds no JSON object", damaged_hint);
  return std::move(value.get_object());
}

std::string with_tagged_numbers(std::string_view text) {
  constexpr std::string_view words[] = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  bool quoted = false;
  while (!text.empty()) {
    const auto* const word = std::ranges::find_if(
        words, [&](std::string_view each) { return !quoted && text.starts_with(each); });
    const bool escapes = quoted && text.front() == '\\';
    const std::size_t taken = word != std::end(words) ? word->size() : escapes ? 2 : 1;
    const std::string_view now = text.substr(0, taken);
    if (now == "\"")
      quoted = !quoted;
    out +=
        word != std::end(words) ? fmt::format(R"({{"__float__": "{}"}})", now) : std::string(now);
    text.remove_prefix(now.size());
  }
  return out;
}

const json::value* JsonFields::unread(std::string_view key) {
  return asked_.contains(key) ? nullptr : find(key);
}

const json::value* JsonFields::find(std::string_view key) {
  asked_.emplace(key);
  const json::value* value = object_->if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

void JsonFields::wrong(ErrorCode code, std::string what, std::string hint) {
  if (!error_)
    error_ = Error{code, where_ + ": " + std::move(what), std::move(hint)};
}

std::int64_t JsonFields::integer(std::string_view key, std::int64_t low, std::int64_t high,
                                 std::optional<std::int64_t> fallback) {
  const json::value* value = find(key);
  if (!value && fallback)
    return *fallback;
  // Some exporters write 10000.0 for an integer.
  json::error_code inexact;
  const auto number =
      value && value->is_number() ? value->to_number<std::int64_t>(inexact) : std::int64_t(0);
  if (!value)
    wrong(ErrorCode::corrupt, fmt::format("{} is missing", spelled(key)), damaged_hint);
  else if (!value->is_number() || inexact || number < low || number > high)
    wrong(ErrorCode::corrupt,
          fmt::format("{} is not an integer from {} to {}", spelled(key), low, high), damaged_hint);
  else
    return number;
  return low;
}

double JsonFields::number(std::string_view key, double low, double high,
                          std::optional<double> fallback) {
  const json::value* value = find(key);
  if (!value && fallback)
    return *fallback;
  if (!value)
    wrong(ErrorCode::corrupt, fmt::format("{} is missing", spelled(key)), damaged_hint);
  else if (json::error_code failed; value->is_number()) {
    const double number = value->to_number<double>(failed);
    if (!failed && number >= low && number <= high)
      return number;
  }
  wrong(ErrorCode::corrupt,
        fmt::format("{} is not a number from {} to {}", spelled(key), low, high), damaged_hint);
  return low;
}

bool JsonFields::boolean(std::string_view key, bool fallback) {
  const json::value* value = find(key);
  if (value && !value->is_bool())
    wrong(ErrorCode::corrupt, fmt::format("{} is neither true nor false", spelled(key)),
          damaged_hint);
  return value && value->is_bool() ? value->get_bool() : fallback;
}

std::string JsonFields::string(std::string_view key, std::string_view fallback) {
  const json::value* value = find(key);
  if (value && !value->is_string())
    wrong(ErrorCode::corrupt, fmt::format("{} is not a string", spelled(key)), damaged_hint);
  return value && value->is_string() ? std::string(value->get_string()) : std::string(fallback);
}

} // namespace paceline::text
