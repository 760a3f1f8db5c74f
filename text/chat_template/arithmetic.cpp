// Python's arithmetic and slices.
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
  if (symbol == "//")
    return Value(std::floor(a / b));
  if (symbol == "**")
    return Value(std::pow(a, b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t out = 1;
  for (; exponent > 0 && (base < -1 || base > 1 || exponent < 64); --exponent)
    if (__builtin_mul_overflow(out, base, &out))
      overflow();
  if (exponent > 0) // of 0, 1 and -1
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
  if (symbol == "/" || (symbol == "**" && b < 0))
    return real_arithmetic(symbol, double(a), double(b));
  if (symbol == "**")
    return Value(power(a, b));
  if (b == 0)
    mistake("a division by zero");
  if (b == -1) // the one quotient that may not fit
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
  return Value::list(std::move(out), of.list()->tuple);
}

Value joined(const ListValue& a, const ListValue& b, Budget& budget) {
  budget.spend(a.items.size() + b.items.size());
  List out = a.items;
  out.insert(out.end(), b.items.begin(), b.items.end());
  return Value::list(std::move(out), a.tuple);
}

bool repeatable(const Value& value) {
  return value.text() || value.list();
}

} // namespace

Value arithmetic(const std::string& symbol, const Value& a, const Value& b, Budget& budget) {
  for (const Value& side : {a, b})
    if (const Undefined* missing = side.missing())
      mistake(missing->what);
  if (a.number() && b.number())
    return a.real() || b.real() ? real_arithmetic(symbol, as_real(a), as_real(b))
                                : whole_arithmetic(symbol, as_integer(a, ""), as_integer(b, ""));
  if (symbol == "+" && a.text() && b.text()) {
    budget.spend_text(a.text()->size() + b.text()->size());
    return Value(*a.text() + *b.text());
  }
  if (symbol == "+" && a.list() && b.list() && a.list()->tuple == b.list()->tuple)
    return joined(*a.list(), *b.list(), budget);
  if (symbol == "*" && repeatable(a) && b.number() && !b.real())
    return repeated(a, as_integer(b, ""), budget);
  if (symbol == "*" && repeatable(b) && a.number() && !a.real())
    return repeated(b, as_integer(a, ""), budget);
  if (symbol == "%" && a.text())
    unsupported("formatting a text with %");
  mistake(
      fmt::format("{} and {} cannot be combined with '{}'", type_name(a), type_name(b), symbol));
}

Value slice(const Value& of, std::optional<std::int64_t> begin, std::optional<std::int64_t> end,
            std::int64_t step, Budget& budget) {
  if (const Undefined* missing = of.missing())
    mistake(missing->what);
  if (!of.text() && !of.list())
    return Value(Undefined{fmt::format("a value of type {} has no slices", type_name(of))});
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
  const std::int64_t last = settled(end, step > 0 ? high : low);
  List chosen;
  for (std::int64_t i = settled(begin, step > 0 ? low : high); step > 0 ? i < last : i > last;) {
    chosen.push_back(items[std::size_t(i)]);
    if (__builtin_add_overflow(i, step, &i))
      break;
  }
  if (of.list())
    return Value::list(std::move(chosen), of.list()->tuple);
  std::string text;
  for (const Value& character : chosen)
    text += *character.text();
  return Value(std::move(text));
}

} // namespace paceline::text::jinja
