// Calls whose arguments are a dictionary of texts between marks, numbers and words: Gemma 4's.
#include "text/limits.hpp"
#include "text/tool_calls/call_reader.hpp"
#include "text/tool_calls/json_value.hpp"

namespace paceline::text {
namespace {

constexpr std::string_view quote = "<|\"|>";

} // namespace

/// Reads a text up to its closing quote, and hands it on as it comes.
Reading<bool> CallReader::dict_string() {
  out_.arguments("\"");
  for (auto c = co_await in_.peek(); c; c = co_await in_.peek()) {
    in_.hold(quote.size());
    const bool ends = co_await accept(quote);
    if (ends) {
      in_.release();
      out_.arguments("\"");
      co_return true;
    }
    in_.skip();
    const std::string shown = json_text(std::string_view(&*c, 1));
    out_.arguments(std::string_view(shown).substr(1, shown.size() - 2));
    in_.release();
  }
  co_return false;
}

/// Reads a key, with quotes or without, and the colon.
Reading<bool> CallReader::dict_key() {
  const bool quoted = co_await accept(quote);
  if (quoted) {
    const bool ended = co_await dict_string();
    if (!ended)
      co_return false;
  } else {
    const auto from = in_.at();
    const std::string key = co_await name("_-.$");
    const auto next = co_await in_.peek();
    if (key.empty() || next != ':') {
      in_.go_back(from);
      co_return false;
    }
    out_.arguments(json_text(key));
  }
  const bool parted = co_await accept(":");
  out_.arguments(parted ? ": " : "");
  co_return parted;
}

Reading<bool> CallReader::dict_value(int depth) {
  co_await blanks();
  const bool quoted = co_await accept(quote);
  if (quoted)
    co_return co_await dict_string();
  const auto first = co_await in_.peek();
  if (!first || depth == limits::call_depth_max)
    co_return false;
  if (*first == '{' || *first == '[') {
    in_.skip();
    co_return co_await dict_items(*first == '{' ? '}' : ']', depth + 1);
  }
  if (*first == '"')
    co_return co_await json_value(nullptr);
  const auto from = in_.at();
  const std::string word = co_await name("_+-.");
  const auto value = json_of(word);
  if (!value)
    in_.go_back(from);
  out_.arguments(value.value_or(""));
  co_return value.has_value();
}

/// Reads what follows an opening bracket: values, or pairs of them.
Reading<bool> CallReader::dict_items(char end, int depth) {
  const bool pairs = end == '}';
  out_.arguments(pairs ? "{" : "[");
  for (bool first = true;; first = false) {
    in_.release();
    co_await blanks();
    const bool ended = co_await accept(std::string_view(&end, 1));
    if (ended) {
      out_.arguments(pairs ? "}" : "]");
      co_return true;
    }
    if (!first)
      out_.arguments(", ");
    if (pairs) {
      const bool keyed = co_await dict_key();
      if (!keyed)
        co_return false;
    }
    const bool valued = co_await dict_value(depth);
    if (!valued)
      co_return false;
    const bool goes_on = co_await between(end);
    if (!goes_on)
      co_return false;
  }
}

Reading<bool> CallReader::dict_call() {
  const bool there = co_await accept("call:");
  if (!there)
    co_return false;
  const std::string called = co_await name("_-.");
  const bool takes = co_await accept("{");
  if (!takes || !function(called))
    co_return false;
  begin(called);
  co_await dict_items('}', 0);
  out_.end_call();
  co_return true;
}

} // namespace paceline::text
