// The tables of filters, and code that several of them use.
#pragma once

#include "text/chat_template/interpreter.hpp"

#include <span>

namespace paceline::text::jinja {

struct Filter {
  std::string_view name;
  Value (*apply)(Interpreter&, const Value& subject, Arguments&); ///< Null: not supported.
};
extern const std::span<const Filter> text_filters;   ///< text_filters.cpp
extern const std::span<const Filter> item_filters;   ///< item_filters.cpp
extern const std::span<const Filter> number_filters; ///< number_filters.cpp

/// Returns what Python's str(value) gives.
inline std::string text_of(Interpreter& at, const Value& value) {
  return to_text(value, at.budget());
}

} // namespace paceline::text::jinja
