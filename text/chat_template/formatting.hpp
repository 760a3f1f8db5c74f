// Code that Python's two ways to format values share.
#pragma once

#include "text/chat_template/interpreter.hpp"

namespace paceline::text::jinja {

/// The format of one value: [[fill]align][sign][#][0][width][grouping][.precision][type].
struct Spec {
  std::string fill = " ";
  char align = '\0'; ///< None: the default of the type.
  char sign = '-';
  bool alternative = false;
  std::int64_t width = 0;
  char grouping = '\0';
  std::optional<int> precision;
  char type = '\0';
};

/// Returns a width or precision, or fails if it is out of bounds.
std::int64_t bounded(std::int64_t size);
/// Takes the number that begins a format from it, if there is one.
std::optional<std::int64_t> take_number(std::string_view& from);
/// Takes the character from the beginning of a format; returns whether it was there.
bool take(std::string_view& from, char c);
bool is_one_of(char c, std::string_view those);

std::string format_integer(std::int64_t x, const Spec& spec, Budget& budget);
std::string format_real(double x, const Spec& spec, Budget& budget);
std::string format_text(const std::string& text, const Spec& spec, Budget& budget);
/// Returns the character of a text of one, or of a code point's number.
std::string character(const Value& value);
/// Returns what Python's repr gives.
std::string shown_as_source(const Value& value, Budget& budget);
/// Returns the text with escapes for what is not ASCII.
std::string as_ascii(const std::string& text);

} // namespace paceline::text::jinja
