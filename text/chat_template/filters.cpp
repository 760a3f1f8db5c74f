// `subject | name(...)`
#include "text/chat_template/interpreter.hpp"
#include "text/chat_template/strings.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

std::string text_of(Interpreter& at, const Value& value) {
  return to_text(value, at.budget());
}

/// `value.a.0.b`, as map and its like take it.
Value member_path(Interpreter& at, Value value, const Value& path) {
  if (path.integer())
    return item(value, path, at.budget());
  for (const std::string_view name : split(as_text(path, "an attribute"), ".", -1)) {
    std::int64_t number = 0;
    const bool whole =
        !name.empty() && name.find_first_not_of("0123456789") == name.npos &&
        std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc{};
    const Value key = whole ? Value(number) : Value(name);
    value = item(value, key, at.budget());
  }
  return value;
}

Value trim(Interpreter& at, const Value& subject, Arguments& with) {
  const auto those = with.take("chars");
  if (!those || those->none())
    return Value(strip(text_of(at, subject), Side::both));
  return Value(strip(text_of(at, subject), Side::both, as_text(*those, "what is trimmed")));
}

/// A width, or the text itself.
std::string padding(const Value& width, const char* what) {
  if (width.text())
    return *width.text();
  return std::string(std::size_t(std::clamp<std::int64_t>(as_integer(width, what), 0, 1024)), ' ');
}

Value tojson(Interpreter& at, const Value& subject, Arguments& with) {
  const auto given = [&](std::string_view name) -> std::optional<Value> {
    auto value = with.take(name);
    return value && !value->none() ? value : std::nullopt;
  };
  JsonStyle style;
  style.ascii = truth(given("ensure_ascii").value_or(Value(false)));
  if (const auto indent = given("indent")) {
    style.indent = padding(*indent, "the indent of tojson");
    style.between_items = ",";
  }
  if (const auto separators = given("separators")) {
    const List both = items_of(*separators, at.budget());
    if (both.size() != 2)
      mistake("the separators of tojson are not two");
    style.between_items = as_text(both[0], "a separator of tojson");
    style.behind_key = as_text(both[1], "a separator of tojson");
  }
  style.sorted = truth(given("sort_keys").value_or(Value(false)));
  return Value(to_json(subject, style, at.budget()));
}

Value size(Interpreter&, const Value& subject, Arguments&) {
  return Value::count(length(subject));
}

Value fallback(Interpreter&, const Value& subject, Arguments& with) {
  const Value other = with.take("default_value").value_or(Value(""));
  const auto falsy = with.take("boolean");
  const bool absent = subject.undefined() || (falsy && truth(*falsy) && !truth(subject));
  return absent ? other : subject;
}

Value join(Interpreter& at, const Value& subject, Arguments& with) {
  const auto given = with.take("d");
  const std::string separator = given ? text_of(at, *given) : std::string();
  const auto attribute = with.take("attribute");
  std::string out;
  bool first = true;
  for (const Value& each : items_of(subject, at.budget())) {
    out += first ? "" : separator;
    out += text_of(at, attribute ? member_path(at, each, *attribute) : each);
    at.budget().spend_text(out.size());
    first = false;
  }
  return Value(std::move(out));
}

template <std::string (*map)(std::string_view)>
Value mapped(Interpreter& at, const Value& subject, Arguments&) {
  return Value(map(text_of(at, subject)));
}

/// Unlike the method of that name, an apostrophe is part of a word.
Value title_filter(Interpreter& at, const Value& subject, Arguments&) {
  std::string out;
  bool begins = true;
  const std::string text = text_of(at, subject);
  for (const std::string_view c : characters(text)) {
    const bool between = strip(c, Side::left).empty() ||
                         (c.size() == 1 && std::string_view("-({[<").find(c) != c.npos);
    out += between ? std::string(c) : begins ? upper(c) : lower(c);
    begins = between;
  }
  return Value(std::move(out));
}

Value first(Interpreter& at, const Value& subject, Arguments&) {
  List items = items_of(subject, at.budget());
  return items.empty() ? Value(Undefined{"what is empty has no first item"}) : items.front();
}

Value last(Interpreter& at, const Value& subject, Arguments&) {
  List items = items_of(subject, at.budget());
  return items.empty() ? Value(Undefined{"what is empty has no last item"}) : items.back();
}

Value list(Interpreter& at, const Value& subject, Arguments&) {
  return Value::list(items_of(subject, at.budget()));
}

Value string(Interpreter& at, const Value& subject, Arguments&) {
  return Value(text_of(at, subject));
}

/// A text's number, if it is one as a whole.
template <class T>
std::optional<T> parsed(std::string_view text) {
  text = strip(text, Side::both);
  if (text.starts_with('+') && !text.starts_with("+-"))
    text.remove_prefix(1);
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

Value whole(double x) {
  if (!(std::abs(x) < 9e18))
    mistake("a number is too large");
  return Value(std::int64_t(x));
}

Value integer(Interpreter&, const Value& subject, Arguments& with) {
  Value other = with.take("default").value_or(Value(std::int64_t(0)));
  if (subject.real())
    return std::isfinite(*subject.real()) ? whole(*subject.real()) : other;
  if (subject.number())
    return Value(as_integer(subject, ""));
  if (!subject.text())
    return other;
  if (const auto number = parsed<std::int64_t>(*subject.text()))
    return Value(*number);
  const auto real = parsed<double>(*subject.text());
  return real && std::isfinite(*real) ? whole(*real) : other;
}

Value real(Interpreter&, const Value& subject, Arguments& with) {
  const Value other = with.take("default").value_or(Value(0.0));
  if (subject.number())
    return Value(as_real(subject));
  const auto number = subject.text() ? parsed<double>(*subject.text()) : std::nullopt;
  return number ? Value(*number) : other;
}

Value absolute(Interpreter& at, const Value& subject, Arguments&) {
  if (subject.real())
    return Value(std::abs(*subject.real()));
  const Value zero(std::int64_t(0));
  return arithmetic(less(subject, zero, at.budget()) ? "-" : "+", zero, subject, at.budget());
}

Value replaced(Interpreter& at, const Value& subject, Arguments& with) {
  const std::string from = text_of(at, with.require("old"));
  const std::string to = text_of(at, with.require("new"));
  const auto times = with.take("count");
  const std::int64_t most = times && !times->none() ? as_integer(*times, "count") : -1;
  const std::string text = text_of(at, subject);
  if (from.empty())
    unsupported("replacing an empty text");
  const std::size_t found = count(text, from);
  if (!to.empty() && found > limits::template_text_bytes_max / to.size())
    mistake("the template makes a text that is too long");
  at.budget().spend_text(text.size() + found * to.size());
  return Value(replace(text, from, to, most));
}

Value items(Interpreter& at, const Value& subject, Arguments&) {
  if (subject.undefined())
    return Value::list({});
  if (!subject.dict())
    mistake(fmt::format("the filter items is given a value of type {}", type_name(subject)));
  Arguments none("items");
  return call_method(at, subject, "items", none);
}

Value map(Interpreter& at, const Value& subject, Arguments& with) {
  List out;
  if (const auto named = with.take_named(); !named.empty()) {
    const auto part = [&](std::string_view name) -> const Value* {
      const auto found = std::find_if(named.begin(), named.end(),
                                      [&](const auto& argument) { return argument.first == name; });
      return found == named.end() ? nullptr : &found->second;
    };
    const Value* attribute = part("attribute");
    const Value* other = part("default");
    if (!attribute || named.size() > (other ? 2u : 1u))
      unsupported("map with other arguments than attribute and default");
    for (const Value& each : items_of(subject, at.budget())) {
      Value value = member_path(at, each, *attribute);
      out.push_back(value.undefined() && other ? *other : value);
    }
    return Value::list(std::move(out));
  }
  const Value name = with.require("filter");
  const List rest = with.take_rest();
  for (const Value& each : items_of(subject, at.budget())) {
    Arguments inner("the filter " + as_text(name, "a filter's name"), rest);
    out.push_back(apply_filter(at, as_text(name, "a filter's name"), each, inner));
  }
  return Value::list(std::move(out));
}

/// Items of which a test says `wanted`; of a member of theirs when `by_attribute`.
template <bool wanted, bool by_attribute>
Value chosen(Interpreter& at, const Value& subject, Arguments& with) {
  const Value attribute = by_attribute ? with.require("attribute") : Value();
  const auto name = with.take("test");
  const List rest = with.take_rest();
  List out;
  for (Value& each : items_of(subject, at.budget())) {
    const Value tested = by_attribute ? member_path(at, each, attribute) : each;
    bool holds = truth(tested);
    if (name) {
      Arguments inner("the test " + as_text(*name, "a test's name"), rest);
      holds = apply_test(at, as_text(*name, "a test's name"), tested, inner);
    }
    if (holds == wanted)
      out.push_back(std::move(each));
  }
  return Value::list(std::move(out));
}

Value indent(Interpreter& at, const Value& subject, Arguments& with) {
  const Value width = with.take("width").value_or(Value(std::int64_t(4)));
  const Value first_too = with.take("first").value_or(Value(false));
  const Value blank_too = with.take("blank").value_or(Value(false));
  const std::string pad = padding(width, "the width of indent");
  const std::string text = as_text(subject, "what is indented") + "\n";
  std::string out;
  bool first_line = true;
  for (const std::string_view line : split_lines(text)) {
    if (!first_line)
      out += '\n';
    if (first_line ? truth(first_too) : truth(blank_too) || !line.empty())
      out += pad;
    out += line;
    at.budget().spend_text(pad.size() + line.size());
    first_line = false;
  }
  return Value(std::move(out));
}

Value reversed(Interpreter& at, const Value& subject, Arguments&) {
  return slice(subject, {}, {}, -1, at.budget());
}

/// What is compared of a value where case does not matter.
Value folded(const Value& value) {
  return value.text() ? Value(lower(*value.text())) : value;
}

Value unique(Interpreter& at, const Value& subject, Arguments&) {
  List out;
  for (Value& each : items_of(subject, at.budget())) {
    const bool known = std::any_of(out.begin(), out.end(), [&](const Value& other) {
      return equal(folded(other), folded(each), at.budget());
    });
    if (!known)
      out.push_back(std::move(each));
  }
  return Value::list(std::move(out));
}

Value sorted(Interpreter& at, const Value& subject, Arguments& with) {
  const auto reverse = with.take("reverse");
  const auto exact = with.take("case_sensitive");
  const auto attribute = with.take("attribute");
  const auto key = [&](const Value& value) {
    const Value by = attribute ? member_path(at, value, *attribute) : value;
    return exact && truth(*exact) ? by : folded(by);
  };
  const bool backwards = reverse && truth(*reverse);
  List items = items_of(subject, at.budget());
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    return backwards ? less(key(b), key(a), at.budget()) : less(key(a), key(b), at.budget());
  });
  return Value::list(std::move(items));
}

struct Filter {
  std::string_view name;
  Value (*apply)(Interpreter&, const Value&, Arguments&);
};
constexpr Filter filters[] = {
    {"trim", trim},
    {"tojson", tojson},
    {"length", size},
    {"count", size},
    {"default", fallback},
    {"d", fallback},
    {"join", join},
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"capitalize", mapped<capitalize>},
    {"title", title_filter},
    {"first", first},
    {"last", last},
    {"list", list},
    {"string", string},
    {"safe", string},
    {"int", integer},
    {"float", real},
    {"abs", absolute},
    {"replace", replaced},
    {"items", items},
    {"map", map},
    {"select", chosen<true, false>},
    {"reject", chosen<false, false>},
    {"selectattr", chosen<true, true>},
    {"rejectattr", chosen<false, true>},
    {"indent", indent},
    {"reverse", reversed},
    {"unique", unique},
    {"sort", sorted},
};

} // namespace

bool knows_filter(std::string_view name) {
  return std::any_of(std::begin(filters), std::end(filters),
                     [&](const Filter& f) { return f.name == name; });
}

Value apply_filter(Interpreter& at, const std::string& name, const Value& subject,
                   Arguments& arguments) {
  const auto* filter = std::find_if(std::begin(filters), std::end(filters),
                                    [&](const Filter& f) { return f.name == name; });
  if (filter == std::end(filters))
    unsupported(fmt::format("the filter '{}'", name));
  at.budget().spend();
  Value out = filter->apply(at, subject, arguments);
  arguments.finish();
  return out;
}

} // namespace paceline::text::jinja
