// What Python's two ways to format values share.
#pragma once

#include "text/chat_template/interpreter.hpp"

namespace paceline::text::jinja {

/// How one value is written: [[fill]align][sign][#][0][width][grouping][.precision][type].
struct Spec {
  std::string fill = " ";
  char align = '\0'; ///< None: as the type has it.
  char sign = '-';
  bool alternative = false;
  std::int64_t width = 0;
  char grouping = '\0';
  std::optional<int> precision;
  char type = '\0';
};

/// A width or precision, or a mistake.
std::int64_t bounded(std::int64_t size);
/// The number that begins a format, which is taken from it.
std::optional<std::int64_t> take_number(std::string_view& from);
/// Whether a format begins with this, which is taken from it.
bool take(std::string_view& from, char c);
bool is_one_of(char c, std::string_view those);

std::string format_integer(std::int64_t x, const Spec& spec, Budget& budget);
std::string format_real(double x, const Spec& spec, Budget& budget);
std::string format_text(const std::string& text, const Spec& spec, Budget& budget);
/// Of one letter, or of its number.
std::string character(const Value& value);
/// How Python's repr shows a value.
std::string shown_as_source(const Value& value, Budget& budget);
/// With escapes for what is not ASCII.
std::string as_ascii(const std::string& text);

} // namespace paceline::text::jinja
