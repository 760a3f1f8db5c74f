// Implements text.format(...).
#include "text/chat_template/formatting.hpp"
#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

class BraceFormat {
public:
  BraceFormat(const List& positional, const Members& named, Budget& budget)
      : positional_(positional), named_(named), budget_(budget) {}

  std::string run(std::string_view format, int depth = 2) {
    if (depth == 0)
      mistake("a format's fields are nested too deeply");
    std::string out;
    while (!format.empty()) {
      const std::size_t at = std::min(format.find_first_of("{}"), format.size());
      out += format.substr(0, at);
      format.remove_prefix(at);
      if (format.starts_with("{{") || format.starts_with("}}")) {
        out += format[0];
        format.remove_prefix(2);
      } else if (take(format, '{')) {
        out += field(format, depth);
      } else if (!format.empty()) {
        mistake("a format has a single '}'");
      }
      budget_.spend_text(out.size());
    }
    return out;
  }

private:
  std::string field(std::string_view& format, int depth) {
    std::size_t end = 0;
    for (int open = 1; open > 0; ++end) {
      if (end == format.size())
        mistake("a format's field has no end");
      open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
    }
    std::string_view inside = format.substr(0, end - 1);
    format.remove_prefix(end);
    std::size_t name_end = 0;
    for (bool bracket = false; name_end < inside.size(); ++name_end) {
      bracket = inside[name_end] == '[' || (bracket && inside[name_end] != ']');
      if (!bracket && is_one_of(inside[name_end], "!:"))
        break;
    }
    Value value = value_of(inside.substr(0, name_end));
    inside.remove_prefix(name_end);
    if (take(inside, '!'))
      value = converted(value, inside);
    if (!inside.empty() && !take(inside, ':'))
      mistake("a format's conversion is longer than a letter");
    return formatted(value, inside.find('{') != inside.npos ? run(inside, depth - 1)
                                                            : std::string(inside));
  }

  Value converted(const Value& value, std::string_view& rest) {
    const char how = rest.empty() ? '\0' : rest[0];
    if (!is_one_of(how, "sra"))
      mistake("a format's conversion is none of !s, !r and !a");
    rest.remove_prefix(1);
    if (how == 's')
      return Value(to_text(value, budget_));
    const std::string source = shown_as_source(value, budget_);
    return Value(how == 'a' ? as_ascii(source) : source);
  }

  Value value_of(std::string_view name) {
    const std::size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first_of(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      if (take(name, '.')) {
        const std::size_t size = std::min(name.find_first_of(".["), name.size());
        if (size == 0)
          mistake("a format's field has an empty name");
        value = member(value, std::string(name.substr(0, size)), budget_);
        name.remove_prefix(size);
        continue;
      }
      const std::size_t size = name.find(']');
      if (!take(name, '[') || size == name.npos || size < 2)
        mistake("a format's field has no valid name");
      std::string_view key = name.substr(0, size - 1);
      name.remove_prefix(size);
      std::string_view digits = key;
      const auto number = take_number(digits);
      value = item(value, number && digits.empty() ? Value(*number) : Value(key), budget_);
    }
    return value;
  }

  Value first_of(std::string_view name) {
    std::string_view rest = name;
    auto number = take_number(rest);
    if (!name.empty() && !(number && rest.empty())) {
      for (const auto& [own, value] : named_)
        if (own == name)
          return value;
      mistake(fmt::format("a format finds no value '{}'", name));
    }
    if (counts_ && *counts_ != name.empty())
      mistake("a format both counts its fields and numbers them");
    counts_ = name.empty();
    const auto at = std::size_t(number ? *number : next_++);
    if (at >= positional_.size())
      mistake("a format lacks values");
    return positional_[at];
  }

  std::string formatted(const Value& value, std::string_view format) {
    const Spec spec = spec_of(format);
    const bool empty = format.empty();
    if (empty || !(value.text() || value.number())) {
      if (!empty)
        mistake(fmt::format("a value of type {} takes no format", type_name(value)));
      return to_text(value, budget_);
    }
    if (value.text()) {
      if ((spec.type != '\0' && spec.type != 's') || spec.align == '=' || spec.sign != '-' ||
          spec.alternative || spec.grouping != '\0')
        mistake("a format does not fit a text");
      return format_text(*value.text(), spec, budget_);
    }
    const bool as_float = value.real() || is_one_of(spec.type, "eEfFgG%");
    if (!is_one_of(spec.type, value.real() ? "eEfFgGn%" : "eEfFgGn%bcdoxX") && spec.type != '\0')
      mistake("a format does not fit a number");
    if (spec.grouping != '\0' && spec.fill == "0" && spec.align == '=')
      unsupported("a format that groups filling digits");
    if (as_float)
      return format_real(as_real(value), spec, budget_);
    if (spec.precision)
      mistake("a whole number has no precision");
    if (spec.type == 'c')
      return format_text(character(value), spec, budget_);
    return format_integer(as_integer(value, ""), spec, budget_);
  }

  static Spec spec_of(std::string_view format) {
    Spec out;
    const std::size_t fill = format.empty() ? 0 : first_character(format).size;
    if (fill > 0 && format.size() > fill && is_one_of(format[fill], "<>=^")) {
      out.fill = std::string(format.substr(0, fill));
      out.align = format[fill];
      format.remove_prefix(fill + 1);
    } else if (!format.empty() && is_one_of(format[0], "<>=^")) {
      out.align = format[0];
      format.remove_prefix(1);
    }
    if (!format.empty() && is_one_of(format[0], "+- ")) {
      out.sign = format[0];
      format.remove_prefix(1);
    }
    out.alternative = take(format, '#');
    if (take(format, '0') && out.align == '\0') {
      out.fill = "0";
      out.align = '=';
    }
    out.width = take_number(format).value_or(0);
    if (!format.empty() && is_one_of(format[0], ",_")) {
      out.grouping = format[0];
      format.remove_prefix(1);
    }
    if (take(format, '.')) {
      const auto precision = take_number(format);
      if (!precision)
        mistake("a format lacks its precision");
      out.precision = int(*precision);
    }
    if (!format.empty()) {
      out.type = format[0];
      format.remove_prefix(1);
    }
    if (!format.empty())
      mistake("a format is none");
    return out;
  }

  const List& positional_;
  const Members& named_;
  Budget& budget_;
  std::int64_t next_ = 0;
  std::optional<bool> counts_;
};

} // namespace

Value brace_format(const std::string& format, const List& positional, const Members& named,
                   Budget& budget) {
  return Value(BraceFormat(positional, named, budget).run(format));
}

} // namespace paceline::text::jinja
