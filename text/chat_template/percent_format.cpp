// Implements `text % values`.
#include "text/chat_template/formatting.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

class PercentFormat {
public:
  PercentFormat(const Value& values, Budget& budget) : values_(values), budget_(budget) {
    if (values.is_tuple())
      waiting_ = values.list()->items;
    else
      waiting_ = {values};
  }

  std::string run(std::string_view format) {
    std::string out;
    for (std::size_t at; (at = format.find('%')) != format.npos;) {
      out += format.substr(0, at);
      format.remove_prefix(at + 1);
      out += one(format);
      budget_.spend_text(out.size());
    }
    const bool mapping = values_.dict() || values_.is_plain_list() || values_.undefined() ||
                         (values_.list() && values_.list()->kind == ListValue::Kind::range);
    if (!by_name_ && !mapping && next_ < waiting_.size())
      mistake("a format leaves values over");
    return out += format;
  }

private:
  Value next() {
    if (next_ == waiting_.size())
      mistake("a format lacks values");
    return waiting_[next_++];
  }

  std::string one(std::string_view& rest) {
    std::optional<Value> named;
    if (take(rest, '('))
      named = named_value(rest);
    Spec spec;
    bool left = false;
    bool zero = false;
    for (; !rest.empty() && is_one_of(rest[0], "#0- +"); rest.remove_prefix(1)) {
      spec.alternative = spec.alternative || rest[0] == '#';
      zero = zero || rest[0] == '0';
      left = left || rest[0] == '-';
      if (rest[0] == '+' || (rest[0] == ' ' && spec.sign != '+'))
        spec.sign = rest[0];
    }
    spec.width = size(rest).value_or(0);
    left = left || spec.width < 0;
    spec.width = std::abs(spec.width);
    if (take(rest, '.'))
      spec.precision = int(std::max<std::int64_t>(size(rest).value_or(0), 0));
    while (!rest.empty() && is_one_of(rest[0], "hlL"))
      rest.remove_prefix(1);
    if (rest.empty())
      mistake("a format is incomplete");
    spec.type = rest[0];
    rest.remove_prefix(1);
    if (spec.type == '%')
      return "%";
    spec.align = left ? '<' : zero && !is_one_of(spec.type, "sracs") ? '=' : '>';
    spec.fill = spec.align == '=' ? "0" : " ";
    return converted(named ? *named : next(), spec);
  }

  std::optional<std::int64_t> size(std::string_view& rest) {
    return take(rest, '*') ? bounded(as_integer(next(), "a width")) : take_number(rest);
  }

  Value named_value(std::string_view& rest) {
    std::size_t end = 0;
    for (int open = 1; open > 0; ++end) {
      if (end == rest.size())
        mistake("a format's name has no end");
      open += rest[end] == '(' ? 1 : rest[end] == ')' ? -1 : 0;
    }
    const std::string_view name = rest.substr(0, end - 1);
    rest.remove_prefix(end);
    if (!values_.dict())
      mistake("a format with names needs a dict");
    const Value* value = values_.dict()->find(name);
    if (!value)
      mistake(fmt::format("a format finds no value '{}'", name));
    by_name_ = true;
    return *value;
  }

  std::string converted(const Value& value, Spec& spec) {
    switch (spec.type) {
    case 's': return format_text(to_text(value, budget_), spec, budget_);
    case 'r': return format_text(shown_as_source(value, budget_), spec, budget_);
    case 'a': return format_text(as_ascii(shown_as_source(value, budget_)), spec, budget_);
    case 'c': return format_text(character(value), spec, budget_);
    case 'd':
    case 'i':
    case 'u': return padded_integer(truncated(value), spec);
    case 'o':
    case 'x':
    case 'X': return padded_integer(as_integer(value, "what a format shows"), spec);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': return format_real(as_real(value), spec, budget_);
    default: mistake(fmt::format("a format has the unknown letter '{}'", shown_letter(spec.type)));
    }
  }
  static std::string shown_letter(char c) {
    return static_cast<unsigned char>(c) < 0x80 ? std::string(1, c) : "?";
  }
  static std::int64_t truncated(const Value& value) {
    const double* real = value.real();
    if (real && !(std::abs(*real) < 9.2e18))
      mistake("a number is too large");
    return real ? std::int64_t(*real) : as_integer(value, "what a format shows");
  }
  /// Writes a whole number, for which a precision is a least number of digits.
  std::string padded_integer(std::int64_t x, Spec spec) {
    if (spec.precision && *spec.precision > 0)
      unsupported("a precision of a whole number");
    return format_integer(x, spec, budget_);
  }

  const Value& values_;
  Budget& budget_;
  List waiting_;
  std::size_t next_ = 0;
  bool by_name_ = false;
};

} // namespace

Value percent_format(const std::string& format, const Value& values, Budget& budget) {
  return Value(PercentFormat(values, budget).run(format));
}

} // namespace paceline::text::jinja
