// Calls whose arguments are JSON.
#include "text/limits.hpp"
#include "text/tool_calls/call_reader.hpp"

#include <boost/json/parse.hpp>

namespace paceline::text {
namespace json = boost::json;
namespace {

/// Decodes a string of JSON, quotes included.
std::optional<std::string> decoded(const std::string& literal) {
  json::error_code failed;
  const json::value value = json::parse(literal, failed);
  const auto* text = failed ? nullptr : value.if_string();
  return text ? std::optional(std::string(*text)) : std::nullopt;
}

/// Returns the arguments that a value means: a model may have put them into a text, or leave them
/// out.
std::string arguments_of(const std::string& value) {
  if (value.empty() || value == "null")
    return "{}";
  return value.front() == '"' ? decoded(value).value_or(value) : value;
}

/// Tells where a value of JSON ends, byte by byte.
class ValueEnd {
public:
  /// Returns whether the value goes on with this byte.
  bool takes(char c) {
    if (over_)
      return false;
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      over_ = !in_string_ && depth_ == 0;
      return true;
    }
    if (depth_ == 0 && begun_) // a number or a word
      return !is_blank(c) && c != ',' && c != '}' && c != ']';
    begun_ = true;
    in_string_ = c == '"';
    depth_ += int(c == '{' || c == '[') - int(c == '}' || c == ']');
    over_ = depth_ == 0 && (c == '}' || c == ']');
    return depth_ >= 0;
  }

private:
  int depth_ = 0;
  bool begun_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
  bool over_ = false;
};

} // namespace

Reading<bool> CallReader::json_value(std::string* to) {
  ValueEnd value;
  bool any = false;
  for (auto c = co_await in_.peek(); c && value.takes(*c); c = co_await in_.peek()) {
    any = true;
    in_.skip();
    if (to) {
      *to += *c;
      continue;
    }
    out_.arguments(std::string_view(&*c, 1));
    in_.release();
  }
  co_return any;
}

Reading<std::optional<std::string>> CallReader::json_string() {
  std::string literal;
  const auto next = co_await in_.peek();
  if (next != '"')
    co_return std::nullopt;
  co_await json_value(&literal);
  co_return decoded(literal);
}

/// Reads the arguments of a call that has begun.
Reading<bool> CallReader::json_arguments() {
  const auto first = co_await in_.peek();
  if (first == '{' || first == '[')
    co_return co_await json_value(nullptr);
  std::string value;
  co_await json_value(&value);
  out_.arguments(arguments_of(value));
  co_return true;
}

/// Reads a name and the colon.
Reading<bool> CallReader::json_member(std::string& key) {
  co_await blanks();
  auto read = co_await json_string();
  if (!read)
    co_return false;
  key = std::move(*read);
  co_await blanks();
  const bool parted = co_await accept(":");
  if (!parted)
    co_return false;
  co_await blanks();
  co_return true;
}

Reading<bool> CallReader::json_rest() {
  for (;;) {
    in_.hold(limits::call_head_bytes_max);
    const auto from = in_.at();
    co_await blanks();
    const bool ended = co_await accept("}");
    if (ended)
      co_return true;
    std::string key;
    std::string value;
    bool more = co_await comma();
    if (more)
      more = co_await json_member(key);
    if (more)
      more = co_await json_value(&value);
    if (!more) {
      in_.go_back(from);
      co_return false;
    }
  }
}

Reading<bool> CallReader::json_call() {
  std::string function_name;
  std::string arguments;
  const bool opened = co_await accept("{");
  if (!opened)
    co_return false;
  for (std::string key; co_await json_member(key);) {
    if (key == "name") {
      function_name = (co_await json_string()).value_or("");
      if (!function(function_name))
        co_return false;
    } else if (key != "arguments" && key != "parameters") {
      std::string ignored;
      const bool valued = co_await json_value(&ignored);
      if (!valued)
        co_return false;
    } else if (function_name.empty()) { // they stand before the name
      const bool valued = co_await json_value(&arguments);
      if (!valued)
        co_return false;
    } else {
      begin(function_name);
      co_await json_arguments();
      co_await json_rest();
      out_.end_call();
      co_return true;
    }
    const bool goes_on = co_await comma();
    if (!goes_on)
      break;
  }
  if (function_name.empty())
    co_return false;
  const bool closed = co_await accept("}");
  if (!closed)
    co_return false;
  begin(function_name);
  out_.arguments(arguments_of(arguments));
  out_.end_call();
  co_return true;
}

/// Reads one call, or a list of them.
Reading<bool> CallReader::json_calls() {
  const bool listed = co_await accept("[");
  if (!listed)
    co_return co_await json_call();
  co_await blanks();
  const bool called = co_await json_call();
  if (!called)
    co_return false;
  for (;;) {
    in_.hold(limits::call_head_bytes_max);
    const auto from = in_.at();
    co_await blanks();
    const bool ended = co_await accept("]");
    if (ended)
      co_return true;
    bool more = co_await comma();
    if (more)
      more = co_await json_call();
    if (!more) {
      in_.go_back(from);
      co_return true;
    }
  }
}

/// Reads f[ARGS]{...}, with the call's id or without, or a list.
Reading<bool> CallReader::named_call() {
  const auto first = co_await in_.peek();
  if (first == '[')
    co_return co_await json_calls();
  const std::string called = co_await name("_-.");
  if (!function(called))
    co_return false;
  const bool has_id = co_await accept("[CALL_ID]");
  if (has_id)
    co_await name("_-");
  co_await accept("[ARGS]");
  co_return co_await call_of(called);
}

Reading<bool> CallReader::call_of(const std::string& called) {
  co_await blanks();
  const auto next = co_await in_.peek();
  if (!function(called) || next != '{')
    co_return false;
  begin(called);
  co_await json_arguments();
  out_.end_call();
  co_return true;
}

/// Reads what follows the mark of a channel, where that is a call.
Reading<bool> CallReader::channel_call() {
  const bool addressed = co_await accept("commentary to=functions.");
  if (!addressed)
    co_return false;
  const std::string called = co_await name("_-.");
  co_await blanks();
  co_await accept("<|constrain|>");
  co_await name("_-");
  const bool begins = co_await accept("<|message|>");
  if (!begins)
    co_return false;
  co_return co_await call_of(called);
}

} // namespace paceline::text
