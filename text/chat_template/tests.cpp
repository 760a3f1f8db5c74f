// Implements `subject is name(...)`.
#include "text/chat_template/interpreter.hpp"
#include "text/chat_template/strings.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

using Test = bool (*)(Interpreter&, const Value&, Arguments&);

bool whole(const Value& value) {
  return value.integer() != nullptr;
}

/// Returns whether `value % by` is `rest`; for a text, % formats.
bool leaves(Interpreter& at, const Value& value, const Value& by, std::int64_t rest) {
  return equal(arithmetic("%", value, by, at.budget()), Value(rest), at.budget());
}

template <bool (*compare)(const Value&, const Value&, Budget&)>
bool against(Interpreter& at, const Value& value, Arguments& with) {
  return compare(value, with.require("other"), at.budget());
}
bool not_equal(const Value& a, const Value& b, Budget& budget) {
  return !equal(a, b, budget);
}
bool greater(const Value& a, const Value& b, Budget& budget) {
  return less(b, a, budget);
}
bool less_or_equal(const Value& a, const Value& b, Budget& budget) {
  return less(a, b, budget) || equal(a, b, budget);
}
bool greater_or_equal(const Value& a, const Value& b, Budget& budget) {
  return less_or_equal(b, a, budget);
}
bool within(const Value& a, const Value& b, Budget& budget) {
  return contains(b, a, budget);
}

bool is_sequence(const Value& value) {
  const bool range = value.list() && value.list()->kind == ListValue::Kind::range;
  return value.is_tuple() || value.is_plain_list() || range || value.dict() || value.text() ||
         value.undefined();
}

bool names(const Value& value, bool (*exists)(std::string_view)) {
  check_key(value);
  return value.text() && exists(*value.text());
}

struct NamedTest {
  std::string_view name;
  Test holds;
};
constexpr NamedTest tests[] = {
    {"defined", [](Interpreter&, const Value& v, Arguments&) { return !v.undefined(); }},
    {"undefined", [](Interpreter&, const Value& v, Arguments&) { return v.undefined(); }},
    {"none", [](Interpreter&, const Value& v, Arguments&) { return v.none(); }},
    {"string", [](Interpreter&, const Value& v, Arguments&) { return v.text() != nullptr; }},
    {"number", [](Interpreter&, const Value& v, Arguments&) { return v.number(); }},
    {"integer", [](Interpreter&, const Value& v, Arguments&) { return whole(v); }},
    {"float", [](Interpreter&, const Value& v, Arguments&) { return v.real() != nullptr; }},
    {"boolean", [](Interpreter&, const Value& v, Arguments&) { return v.boolean() != nullptr; }},
    {"true", [](Interpreter&, const Value& v, Arguments&) { return v.boolean() && *v.boolean(); }},
    {"false",
     [](Interpreter&, const Value& v, Arguments&) { return v.boolean() && !*v.boolean(); }},
    {"mapping", [](Interpreter&, const Value& v, Arguments&) { return v.dict() != nullptr; }},
    {"sequence", [](Interpreter&, const Value& v, Arguments&) { return is_sequence(v); }},
    {"iterable", [](Interpreter&, const Value& v, Arguments&) { return iterable(v); }},
    {"callable",
     [](Interpreter&, const Value& v, Arguments&) {
       const Counter* counter = v.counter();
       return v.callable() || v.loop() || v.undefined() ||
              (counter && counter->kind == Counter::Kind::joiner);
     }},
    {"sameas",
     [](Interpreter&, const Value& v, Arguments& with) { return same(v, with.require("other")); }},
    {"escaped", [](Interpreter&, const Value& v, Arguments&) { return v.is_markup(); }},
    {"upper",
     [](Interpreter& at, const Value& v, Arguments&) { return is_upper(to_text(v, at.budget())); }},
    {"lower",
     [](Interpreter& at, const Value& v, Arguments&) { return is_lower(to_text(v, at.budget())); }},
    {"filter", [](Interpreter&, const Value& v, Arguments&) { return names(v, is_filter); }},
    {"test", [](Interpreter&, const Value& v, Arguments&) { return names(v, is_test); }},
    {"odd", [](Interpreter& at, const Value& v,
               Arguments&) { return leaves(at, v, Value(std::int64_t(2)), 1); }},
    {"even", [](Interpreter& at, const Value& v,
                Arguments&) { return leaves(at, v, Value(std::int64_t(2)), 0); }},
    {"divisibleby", [](Interpreter& at, const Value& v,
                       Arguments& with) { return leaves(at, v, with.require("num"), 0); }},
    {"eq", against<equal>},
    {"==", against<equal>},
    {"equalto", against<equal>},
    {"ne", against<not_equal>},
    {"!=", against<not_equal>},
    {"lt", against<less>},
    {"<", against<less>},
    {"lessthan", against<less>},
    {"le", against<less_or_equal>},
    {"<=", against<less_or_equal>},
    {"gt", against<greater>},
    {">", against<greater>},
    {"greaterthan", against<greater>},
    {"ge", against<greater_or_equal>},
    {">=", against<greater_or_equal>},
    {"in", against<within>},
};

const NamedTest* find_test(std::string_view name) {
  const auto* test = std::find_if(std::begin(tests), std::end(tests),
                                  [&](const NamedTest& t) { return t.name == name; });
  return test == std::end(tests) ? nullptr : test;
}

} // namespace

bool is_test(std::string_view name) {
  return find_test(name) != nullptr;
}

bool apply_test(Interpreter& at, const std::string& name, const Value& subject,
                Arguments& arguments) {
  const NamedTest* test = find_test(name);
  if (!test)
    mistake(fmt::format("there is no test '{}'", name));
  at.budget().spend();
  const bool holds = test->holds(at, subject, arguments);
  arguments.finish();
  return holds;
}

} // namespace paceline::text::jinja
