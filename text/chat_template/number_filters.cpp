// Filters that make numbers.
#include "text/chat_template/filters.hpp"
#include "text/chat_template/strings.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

/// Removes the underscores between a number's digits; none if one is not between two.
std::optional<std::string> plain_digits(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto alnum = [&](std::size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at]));
    };
    if (text[i] != '_')
      out += text[i];
    else if (i == 0 || !alnum(i - 1) || !alnum(i + 1))
      return {};
  }
  return out;
}

int base_of_prefix(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0')
    return 0;
  const char letter = char(digits[1] | 0x20);
  return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

/// Parses as Python's int(text, base).
std::optional<std::int64_t> parsed_integer(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36))
    return {};
  text = strip(text, Side::both);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+'))
    text.remove_prefix(1);
  if (const int prefix = base_of_prefix(text); prefix != 0 && (base == 0 || base == prefix)) {
    base = prefix;
    text.remove_prefix(text.size() > 2 && text[2] == '_' ? 3 : 2);
  }
  const auto digits = plain_digits(text);
  if (!digits || digits->empty() || digits->front() == '-')
    return {};
  if (base == 0 && digits->front() == '0' && digits->find_first_not_of('0') != digits->npos)
    return {};
  const std::string all = (negative ? "-" : "") + *digits;
  std::int64_t number = 0;
  const auto [end, error] =
      std::from_chars(all.data(), all.data() + all.size(), number, base == 0 ? 10 : int(base));
  if (end != all.data() + all.size() || error == std::errc::invalid_argument)
    return {};
  if (error != std::errc{})
    mistake("a number is too large");
  return number;
}

/// Parses as Python's float(text).
std::optional<double> parsed_real(std::string_view text) {
  const auto digits = plain_digits(strip(text, Side::both));
  if (!digits)
    return {};
  std::string_view rest = *digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+'))
    rest.remove_prefix(1);
  if (rest.empty() || rest.front() == '-' || rest.find('(') != rest.npos)
    return {};
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (end != rest.data() + rest.size() || error == std::errc::invalid_argument)
    return {};
  if (error != std::errc{}) // too large, or too small
    number = std::strtod(std::string(rest).c_str(), nullptr);
  return negative ? -number : number;
}

Value whole(double x) {
  if (!(std::abs(x) < 9.2e18))
    mistake("a number is too large");
  return Value(std::int64_t(x));
}

Value integer(Interpreter&, const Value& subject, Arguments& with) {
  const Value other = with.take("default").value_or(Value(std::int64_t(0)));
  const std::int64_t base = with.integer("base", 10);
  check_defined(subject);
  if (subject.real() && std::isinf(*subject.real()))
    mistake("a number is too large");
  if (subject.real())
    return std::isfinite(*subject.real()) ? whole(*subject.real()) : other;
  if (subject.number())
    return Value(as_integer(subject, ""));
  if (!subject.text())
    return other;
  if (const auto number = parsed_integer(*subject.text(), base))
    return Value(*number);
  const auto real = parsed_real(*subject.text());
  return real && std::isfinite(*real) ? whole(*real) : other;
}

Value real(Interpreter&, const Value& subject, Arguments& with) {
  const Value other = with.take("default").value_or(Value(0.0));
  check_defined(subject);
  if (subject.number())
    return Value(as_real(subject));
  const auto number = subject.text() ? parsed_real(*subject.text()) : std::nullopt;
  return number ? Value(*number) : other;
}

Value absolute(Interpreter& at, const Value& subject, Arguments&) {
  if (subject.real())
    return Value(std::abs(*subject.real()));
  const Value zero(std::int64_t(0));
  return arithmetic(less(subject, zero, at.budget()) ? "-" : "+", zero, subject, at.budget());
}

/// Rounds to a multiple of 10^zeros; halves go to the even neighbour.
std::int64_t rounded(std::int64_t x, std::int64_t zeros) {
  if (zeros > 18)
    return 0;
  std::int64_t unit = 1;
  for (std::int64_t i = 0; i < zeros; ++i)
    unit *= 10;
  const std::int64_t below = (x % unit + unit) % unit;
  const std::int64_t base = x - below;
  const bool up = below > unit - below || (below == unit - below && (base / unit) % 2 != 0);
  return up ? base + unit : base;
}

double rounded(double x, std::int64_t places) {
  if (!std::isfinite(x) || places > 320)
    return x;
  if (places < -308)
    return std::copysign(0.0, x);
  if (places >= 0)
    return std::strtod(fmt::format("{:.{}f}", x, places).c_str(), nullptr);
  const double unit = std::pow(10.0, double(-places));
  return std::nearbyint(x / unit) * unit;
}

Value round(Interpreter&, const Value& subject, Arguments& with) {
  const std::int64_t places = with.integer("precision", 0);
  const Value method = with.take("method").value_or(Value("common"));
  const std::string& how = as_text(method, "the method of round");
  if (how != "common" && how != "ceil" && how != "floor")
    mistake("the method of round is none of common, ceil and floor");
  if (!subject.number())
    mistake(fmt::format("a value of type {} is rounded", type_name(subject)));
  if (how == "common") {
    if (subject.real())
      return Value(rounded(*subject.real(), places));
    const std::int64_t x = as_integer(subject, "");
    return Value(places >= 0 ? x : rounded(x, -places));
  }
  const double unit = std::pow(10.0, double(places));
  const double scaled = as_real(subject) * unit;
  return Value((how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value file_size(Interpreter&, const Value& subject, Arguments& with) {
  const bool binary = with.boolean("binary", false);
  check_defined(subject);
  const auto number = subject.number() ? std::optional(as_real(subject))
                      : subject.text() ? parsed_real(*subject.text())
                                       : std::nullopt;
  if (!number)
    mistake(fmt::format("a value of type {} is no size", type_name(subject)));
  const double base = binary ? 1024 : 1000;
  if (*number == 1)
    return Value("1 Byte");
  if (*number < base)
    return Value(fmt::format("{} Bytes", std::int64_t(*number)));
  constexpr std::string_view prefixes = "kMGTPEZY";
  double unit = base;
  std::size_t at = 0;
  for (; at + 1 < prefixes.size() && *number >= unit * base; ++at)
    unit *= base;
  const char prefix = binary && at == 0 ? 'K' : prefixes[at];
  return Value(
      fmt::format("{:.1f} {}{}B", base * *number / (unit * base), prefix, binary ? "i" : ""));
}

constexpr Filter filters[] = {
    {"abs", absolute}, {"filesizeformat", file_size}, {"float", real}, {"int", integer},
    {"round", round},
};

} // namespace

const std::span<const Filter> number_filters(filters);

} // namespace paceline::text::jinja
