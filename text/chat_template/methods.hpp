// The table of texts' methods.
#pragma once

#include "text/chat_template/interpreter.hpp"

#include <span>

namespace paceline::text::jinja {

struct NamedMethod {
  std::string_view name;
  Value (*call)(Interpreter&, const Value& self, Arguments&); ///< Null: not supported.
};
extern const std::span<const NamedMethod> text_methods; ///< text_methods.cpp

} // namespace paceline::text::jinja
