// Calls in Python: [f(a=1, b="x"), g()]. A list is read to its end before any of it counts.
#include "text/limits.hpp"
#include "text/tool_calls/call_reader.hpp"
#include "text/tool_calls/json_value.hpp"

#include <utility>
#include <vector>

namespace paceline::text {
namespace {

/// Returns what stands for a character behind a backslash; a character that means nothing there
/// stands for both.
std::string unescaped(char c) {
  switch (c) {
  case 'n': return "\n";
  case 't': return "\t";
  case 'r': return "\r";
  case '\n': return "";
  case '\\':
  case '\'':
  case '"': return std::string(1, c);
  default: return std::string("\\") + c;
  }
}

} // namespace

Reading<bool> CallReader::python_string(std::string& json) {
  const auto quote = co_await in_.peek();
  in_.skip();
  std::string text;
  for (auto c = co_await in_.peek(); c; c = co_await in_.peek()) {
    in_.skip();
    if (c == quote) {
      json += json_text(text);
      co_return true;
    }
    if (*c != '\\') {
      text += *c;
      continue;
    }
    const auto escaped = co_await in_.peek();
    if (!escaped)
      break;
    in_.skip();
    text += unescaped(*escaped);
  }
  co_return false;
}

/// Reads what stands between brackets: values, or pairs of them.
Reading<bool> CallReader::python_items(std::string& json, char end, int depth) {
  const bool pairs = end == '}';
  json += pairs ? '{' : '[';
  for (bool first = true;; first = false) {
    co_await blanks();
    const bool ended = co_await accept(std::string_view(&end, 1));
    if (ended) {
      json += pairs ? '}' : ']';
      co_return true;
    }
    if (!first)
      json += ", ";
    const auto next = co_await in_.peek();
    if (pairs && next != '"' && next != '\'') // JSON has no other keys
      co_return false;
    const bool valued = co_await python_value(json, depth);
    if (!valued)
      co_return false;
    if (pairs) {
      co_await blanks();
      const bool parted = co_await accept(":");
      if (!parted)
        co_return false;
      json += ": ";
      co_await blanks();
      const bool paired = co_await python_value(json, depth);
      if (!paired)
        co_return false;
    }
    const bool goes_on = co_await between(end);
    if (!goes_on)
      co_return false;
  }
}

Reading<bool> CallReader::python_value(std::string& json, int depth) {
  const auto first = co_await in_.peek();
  if (!first || depth == limits::call_depth_max)
    co_return false;
  if (*first == '"' || *first == '\'')
    co_return co_await python_string(json);
  if (*first == '[' || *first == '(' || *first == '{') {
    in_.skip();
    co_return co_await python_items(json,
                                    *first == '['   ? ']'
                                    : *first == '(' ? ')'
                                                    : '}',
                                    depth + 1);
  }
  const std::string word = co_await name("_+-.");
  const auto value = json_of(word);
  json += value.value_or("");
  co_return value.has_value();
}

/// Reads a=1, b=2 and the bracket behind it.
Reading<bool> CallReader::python_arguments(std::string& json) {
  json = "{";
  for (bool first = true;; first = false) {
    co_await blanks();
    const bool ended = co_await accept(")");
    if (ended) {
      json += "}";
      co_return true;
    }
    const std::string argument = co_await name("_");
    if (argument.empty())
      co_return false;
    co_await blanks();
    const bool assigned = co_await accept("=");
    if (!assigned)
      co_return false;
    co_await blanks();
    json += (first ? "" : ", ") + json_text(argument) + ": ";
    const bool valued = co_await python_value(json, 0);
    if (!valued)
      co_return false;
    const bool goes_on = co_await between(')');
    if (!goes_on)
      co_return false;
  }
}

Reading<bool> CallReader::python_calls() {
  std::vector<std::pair<std::string, std::string>> calls;
  const bool opened = co_await accept("[");
  if (!opened)
    co_return false;
  co_await blanks();
  do {
    const std::string called = co_await name("_-.");
    auto& [callee, arguments] = calls.emplace_back(called, "");
    if (!function(callee))
      co_return false;
    const bool takes = co_await accept("(");
    if (!takes)
      co_return false;
    const bool complete = co_await python_arguments(arguments);
    if (!complete)
      co_return false;
  } while (co_await comma());
  const bool closed = co_await accept("]");
  if (!closed)
    co_return false;
  for (const auto& [callee, arguments] : calls) {
    begin(callee);
    out_.arguments(arguments);
    out_.end_call();
  }
  co_return true;
}

} // namespace paceline::text
