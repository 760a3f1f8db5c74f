#include "text/chat_template/formatting.hpp"

#include "text/chat_template/strings.hpp"
#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>

namespace paceline::text::jinja {

std::int64_t bounded(std::int64_t size) {
  if (size > limits::template_width_max || size < -limits::template_width_max)
    mistake(fmt::format("a format is wider than {} characters", limits::template_width_max));
  return size;
}

std::optional<std::int64_t> take_number(std::string_view& from) {
  std::int64_t out = 0;
  std::size_t size = 0;
  for (; size < from.size() && from[size] >= '0' && from[size] <= '9'; ++size)
    out = bounded(out * 10 + (from[size] - '0'));
  from.remove_prefix(size);
  return size > 0 ? std::optional(out) : std::nullopt;
}

bool take(std::string_view& from, char c) {
  if (!from.starts_with(c))
    return false;
  from.remove_prefix(1);
  return true;
}

bool is_one_of(char c, std::string_view those) {
  return c != '\0' && those.find(c) != those.npos;
}

namespace {

/// Groups the digits at the beginning of a number, from the right.
std::string grouped(const std::string& number, char by, std::size_t size) {
  if (by == '\0')
    return number;
  const std::size_t whole =
      std::min(number.find_first_not_of("0123456789abcdefABCDEF"), number.size());
  std::string out;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % size == 0)
      out += by;
    out += number[i];
  }
  return out + number.substr(whole);
}

/// Puts together a sign, what stands before the digits, and the digits.
std::string number_of(bool negative, const std::string& prefix, const std::string& digits,
                      const Spec& spec, Budget& budget) {
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const char align = spec.align == '\0' ? '>' : spec.align;
  if (align != '=')
    return aligned(sign + prefix + digits, align, spec.width, spec.fill, budget);
  const auto before = std::int64_t(sign.size() + prefix.size());
  return sign + prefix + aligned(digits, '>', spec.width - before, spec.fill, budget);
}

/// Writes a number without a type: as repr, with at most that many digits, and at least one behind
/// the point.
std::string shortest(double x, std::optional<int> precision) {
  if (!precision)
    return number_text(x);
  const int digits = std::max(*precision, 1);
  const std::string text = fmt::format("{:.{}g}", x, digits);
  const bool whole = text.find_first_not_of("0123456789") == text.npos;
  if (whole && int(text.size()) >= digits) {
    const std::string exponential = fmt::format("{:.{}e}", x, digits - 1);
    const std::size_t e = exponential.find('e');
    std::string mantissa = exponential.substr(0, e);
    if (mantissa.find('.') != mantissa.npos)
      mantissa.resize(mantissa.find_last_not_of("0.") == mantissa.npos
                          ? 1
                          : mantissa.find_last_not_of('0') + 1);
    if (mantissa.ends_with('.'))
      mantissa.pop_back();
    return mantissa + exponential.substr(e);
  }
  return whole ? text + ".0" : text;
}

} // namespace

std::string format_integer(std::int64_t x, const Spec& spec, Budget& budget) {
  const bool negative = x < 0;
  const std::uint64_t size = negative ? 0 - std::uint64_t(x) : std::uint64_t(x);
  std::string digits;
  switch (spec.type) {
  case 'b': digits = fmt::format("{:b}", size); break;
  case 'o': digits = fmt::format("{:o}", size); break;
  case 'x': digits = fmt::format("{:x}", size); break;
  case 'X': digits = fmt::format("{:X}", size); break;
  default: digits = fmt::format("{}", size);
  }
  const bool decimal = is_one_of(spec.type, "dinu") || spec.type == '\0';
  if (!decimal && spec.grouping == ',')
    mistake("a comma groups decimal digits only");
  const std::string prefix = spec.alternative && !decimal ? std::string("0") + spec.type : "";
  return number_of(negative, prefix, grouped(digits, spec.grouping, decimal ? 3 : 4), spec, budget);
}

std::string format_real(double x, const Spec& spec, Budget& budget) {
  const bool negative = std::signbit(x) && !std::isnan(x);
  const double size = std::abs(x);
  const int precision = spec.precision.value_or(6);
  std::string digits;
  if (!std::isfinite(size)) {
    digits = std::isnan(size) ? "nan" : "inf";
    if (is_one_of(spec.type, "EFG"))
      std::transform(digits.begin(), digits.end(), digits.begin(), ::toupper);
    digits += spec.type == '%' ? "%" : "";
    return number_of(negative, "", digits, spec, budget);
  }
  switch (spec.type) {
  case 'e': digits = fmt::format("{:.{}e}", size, precision); break;
  case 'E': digits = fmt::format("{:.{}E}", size, precision); break;
  case 'f':
  case 'F': digits = fmt::format("{:.{}f}", size, precision); break;
  case 'g':
  case 'n': digits = fmt::format("{:.{}g}", size, std::max(precision, 1)); break;
  case 'G': digits = fmt::format("{:.{}G}", size, std::max(precision, 1)); break;
  case '%': digits = fmt::format("{:.{}f}%", size * 100, precision); break;
  default: digits = shortest(size, spec.precision);
  }
  if (spec.alternative)
    unsupported("'#' in a format of a float");
  return number_of(negative, "", grouped(digits, spec.grouping, 3), spec, budget);
}

std::string format_text(const std::string& text, const Spec& spec, Budget& budget) {
  std::string out;
  std::int64_t left = spec.precision.value_or(INT32_MAX);
  for (std::string_view rest = text; !rest.empty() && left > 0; --left) {
    const std::size_t size = first_character(rest).size;
    out += rest.substr(0, size);
    rest.remove_prefix(size);
  }
  return aligned(std::move(out), spec.align == '\0' ? '<' : spec.align, spec.width, spec.fill,
                 budget);
}

std::string character(const Value& value) {
  std::string out;
  if (const std::string* text = value.text(); text && character_count(*text) == 1)
    return *text;
  const std::int64_t point = as_integer(value, "a character");
  if (point < 0 || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
    mistake("a number stands for no character");
  append_character(char32_t(point), out);
  return out;
}

std::string shown_as_source(const Value& value, Budget& budget) {
  const std::string listed = to_text(Value::list({value}), budget);
  return listed.substr(1, listed.size() - 2);
}

std::string as_ascii(const std::string& text) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const Character c = first_character(rest);
    rest.remove_prefix(c.size);
    if (c.point < 0x80)
      out += char(c.point);
    else
      out += c.point <= 0xFF     ? fmt::format("\\x{:02x}", unsigned(c.point))
             : c.point <= 0xFFFF ? fmt::format("\\u{:04x}", unsigned(c.point))
                                 : fmt::format("\\U{:08x}", unsigned(c.point));
  }
  return out;
}

} // namespace paceline::text::jinja
