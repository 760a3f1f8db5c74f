#include "text/tool_calls/call_reader.hpp"

#include "text/limits.hpp"

#include <algorithm>
#include <cstdint>

namespace paceline::text {

const ToolFunction* CallReader::function(std::string_view name) const {
  const auto at = std::ranges::find(functions_, name, &ToolFunction::name);
  return at == functions_.end() ? nullptr : &*at;
}

/// From here on what is read is a call, whatever follows.
void CallReader::begin(const std::string& name) {
  out_.begin_call(name);
  in_.release();
}

bool CallReader::may_begin(char c) const {
  if (!format_.opening.empty() && c == format_.opening.front())
    return true;
  if (format_.body == ToolFormat::Body::xml)
    return c == '<';
  const bool bare = format_.bare && out_.only_calls();
  return bare && (c == '{' || c == '[' || (c == ';' && out_.called()));
}

Reading<bool> CallReader::accept(std::string_view text) {
  const auto from = in_.at();
  for (const char wanted : text) {
    const auto next = co_await in_.peek();
    if (next != wanted) {
      in_.go_back(from);
      co_return false;
    }
    in_.skip();
  }
  co_return true;
}

/// Reads a mark; an empty one is never there.
Reading<bool> CallReader::accept_mark(std::string_view mark) {
  if (mark.empty())
    co_return false;
  co_return co_await accept(mark);
}

Reading<bool> CallReader::blanks() {
  for (auto c = co_await in_.peek(); c && is_blank(*c); c = co_await in_.peek())
    in_.skip();
  co_return true;
}

Reading<bool> CallReader::comma() {
  co_await blanks();
  const bool there = co_await accept(",");
  if (!there)
    co_return false;
  co_return co_await blanks();
}

Reading<bool> CallReader::between(char end) {
  const bool separated = co_await comma();
  if (separated)
    co_return true;
  co_return co_await in_.peek() == end;
}

Reading<std::string> CallReader::name(std::string_view more) {
  std::string name;
  for (auto c = co_await in_.peek(); c; c = co_await in_.peek()) {
    const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
    if (!letter && !(*c >= '0' && *c <= '9') && more.find(*c) == std::string_view::npos)
      break;
    name += *c;
    in_.skip();
  }
  co_return name;
}

Reading<bool> CallReader::read() {
  // A list of calls in Python is read whole before the first of them counts.
  in_.hold(format_.body == ToolFormat::Body::python ? SIZE_MAX / 2 : limits::call_head_bytes_max);
  const bool opened = co_await opening();
  if (!opened)
    co_return false;
  const bool called = co_await body();
  if (!called)
    co_return false;
  co_return co_await closing();
}

Reading<bool> CallReader::opening() {
  const bool marked = co_await accept_mark(format_.opening);
  if (marked) {
    co_await blanks();
    co_return true;
  }
  if (format_.body == ToolFormat::Body::xml) // some models leave the first opening out
    co_return true;
  if (!format_.bare || !out_.only_calls())
    co_return false;
  if (!out_.called())
    co_return true;
  co_await accept(";");
  co_return co_await blanks();
}

Reading<bool> CallReader::body() {
  bool called = false;
  switch (format_.body) {
  case ToolFormat::Body::json: called = co_await json_calls(); break;
  case ToolFormat::Body::named: called = co_await named_call(); break;
  case ToolFormat::Body::xml:
  case ToolFormat::Body::tags: called = co_await tagged_call(); break;
  case ToolFormat::Body::python: called = co_await python_calls(); break;
  case ToolFormat::Body::dict: called = co_await dict_call(); break;
  case ToolFormat::Body::channel: called = co_await channel_call(); break;
  }
  co_return called;
}

/// Reads the closing mark, which a model may leave out.
Reading<bool> CallReader::closing() {
  in_.hold(limits::call_head_bytes_max);
  const auto from = in_.at();
  co_await blanks();
  const bool closed = co_await accept_mark(format_.closing);
  if (!closed)
    in_.go_back(from);
  co_return true;
}

} // namespace paceline::text
