// Arithmetic and slices as in Python.
#include "text/chat_template/interpreter.hpp"
#include "text/chat_template/strings.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

[[noreturn]] void overflow() {
  mistake("a number is too large");
}

struct Division {
  double quotient;
  double rest;
};

/// Divides as Python: the rest has the divisor's sign, and the quotient fits that: 1.0 // 0.1 is 9.
Division divided(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (quotient == 0)
    return {std::copysign(0.0, a / b), rest};
  const double below = std::floor(quotient);
  return {quotient - below > 0.5 ? below + 1 : below, rest};
}

Value real_power(double a, double b) {
  if (a == 0 && b < 0)
    mistake("a division by zero");
  if (a < 0 && std::isfinite(b) && b != std::floor(b))
    unsupported("a complex number");
  const double out = std::pow(a, b);
  if (std::isinf(out) && std::isfinite(a) && std::isfinite(b))
    overflow();
  return Value(out);
}

Value real_arithmetic(const std::string& symbol, double a, double b) {
  if (b == 0 && (symbol == "/" || symbol == "//" || symbol == "%"))
    mistake("a division by zero");
  if (symbol == "+")
    return Value(a + b);
  if (symbol == "-")
    return Value(a - b);
  if (symbol == "*")
    return Value(a * b);
  if (symbol == "/")
    return Value(a / b);
  if (symbol == "**")
    return real_power(a, b);
  const Division whole = divided(a, b);
  return Value(symbol == "//" ? whole.quotient : whole.rest);
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t out = 1;
  for (; exponent > 0 && (base < -1 || base > 1 || exponent < 64); --exponent)
    if (__builtin_mul_overflow(out, base, &out))
      overflow();
  if (exponent > 0) // powers of 0, 1 and -1
    return base == -1 ? (exponent % 2 ? -out : out) : base == 0 ? 0 : out;
  return out;
}

Value whole_arithmetic(const std::string& symbol, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (symbol == "+"   ? __builtin_add_overflow(a, b, &out)
      : symbol == "-" ? __builtin_sub_overflow(a, b, &out)
      : symbol == "*" ? __builtin_mul_overflow(a, b, &out)
                      : false)
    overflow();
  if (symbol == "+" || symbol == "-" || symbol == "*")
    return Value(out);
  if (symbol == "/" && b != 0) // also if no double holds them exactly
    return Value(double(static_cast<long double>(a) / static_cast<long double>(b)));
  if (symbol == "/" || (symbol == "**" && b < 0))
    return real_arithmetic(symbol, double(a), double(b));
  if (symbol == "**")
    return Value(power(a, b));
  if (b == 0)
    mistake("a division by zero");
  if (b == -1) // its quotient is the only one that may overflow
    return whole_arithmetic("-", 0, symbol == "%" ? 0 : a);
  const std::int64_t rest = a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b;
  return Value(symbol == "%" ? rest : (a - rest) / b);
}

Value repeated(const Value& of, std::int64_t times, Budget& budget) {
  const auto count = std::size_t(std::max<std::int64_t>(times, 0));
  const std::size_t one = of.text() ? of.text()->size() : of.list()->items.size();
  if (one > 0 && count > limits::template_text_bytes_max / one)
    mistake("the template makes a text that is too long");
  budget.spend(1 + count * one);
  if (const std::string* text = of.text()) {
    std::string out;
    out.reserve(one * count);
    for (std::size_t i = 0; i < count && one > 0; ++i)
      out += *text;
    return Value(std::move(out));
  }
  List out;
  for (std::size_t i = 0; i < count && one > 0; ++i)
    out.insert(out.end(), of.list()->items.begin(), of.list()->items.end());
  return of.is_tuple() ? Value::tuple(std::move(out)) : Value::list(std::move(out));
}

Value joined(const Value& a, const Value& b, Budget& budget) {
  budget.spend(length(a) + length(b));
  List out = a.list()->items;
  out.insert(out.end(), b.list()->items.begin(), b.list()->items.end());
  return a.is_tuple() ? Value::tuple(std::move(out)) : Value::list(std::move(out));
}

Value joined_texts(const Value& a, const Value& b, Budget& budget) {
  const bool markup = a.is_markup() || b.is_markup();
  const auto text = [&](const Value& x) {
    return markup && !x.is_markup() ? escaped(*x.text()) : *x.text();
  };
  std::string out = text(a);
  const std::string behind = text(b);
  budget.spend_text(out.size() + behind.size());
  out += behind;
  return markup ? Value::markup(std::move(out)) : Value(std::move(out));
}

bool repeatable(const Value& value) {
  return value.text() || value.is_plain_list() || value.is_tuple();
}

} // namespace

Value arithmetic(const std::string& symbol, const Value& a, const Value& b, Budget& budget) {
  for (const Value& side : {a, b})
    if (const Undefined* missing = side.missing(); missing && !(symbol == "%" && a.text()))
      mistake(missing->what);
  if (a.number() && b.number())
    return a.real() || b.real() ? real_arithmetic(symbol, as_real(a), as_real(b))
                                : whole_arithmetic(symbol, as_integer(a, ""), as_integer(b, ""));
  if (symbol == "%" && a.text())
    return percent_format(*a.text(), b, budget);
  if (symbol == "+" && a.text() && b.text())
    return joined_texts(a, b, budget);
  if (symbol == "+" && ((a.is_tuple() && b.is_tuple()) || (a.is_plain_list() && b.is_plain_list())))
    return joined(a, b, budget);
  if (symbol == "*" && repeatable(a) && b.number() && !b.real())
    return repeated(a, as_integer(b, ""), budget);
  if (symbol == "*" && repeatable(b) && a.number() && !a.real())
    return repeated(b, as_integer(a, ""), budget);
  mistake(
      fmt::format("{} and {} cannot be combined with '{}'", type_name(a), type_name(b), symbol));
}

Value slice(const Value& of, std::optional<std::int64_t> begin, std::optional<std::int64_t> end,
            std::int64_t step, Budget& budget) {
  if (const Undefined* missing = of.missing())
    mistake(missing->what);
  if (step == 0)
    mistake("a slice's step is zero");
  const List items = items_of(of, budget);
  const auto size = std::int64_t(items.size());
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? size : size - 1;
  const auto settled = [&](std::optional<std::int64_t> bound, std::int64_t open) {
    if (!bound)
      return open;
    return std::clamp(*bound < 0 ? *bound + size : *bound, low, high);
  };
  const std::int64_t first = settled(begin, step > 0 ? low : high);
  const std::int64_t last = settled(end, step > 0 ? high : low);
  List chosen;
  for (std::int64_t i = first; step > 0 ? i < last : i > last;) {
    chosen.push_back(items[std::size_t(i)]);
    if (__builtin_add_overflow(i, step, &i))
      break;
  }
  if (const ListValue* list = of.list()) {
    const Range& range = list->range; // set if the list is a range
    return Value(ListValue{std::move(chosen), list->kind,
                           Range{range.begin + first * range.step, range.begin + last * range.step,
                                 range.step * step}});
  }
  std::string text;
  for (const Value& character : chosen)
    text += *character.text();
  return of.is_markup() ? Value::markup(std::move(text)) : Value(std::move(text));
}

} // namespace paceline::text::jinja
