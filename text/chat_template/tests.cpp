// `subject is name(...)`
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

bool same(Interpreter& at, const Value& a, const Value& b) {
  return type_name(a) == type_name(b) && equal(a, b, at.budget());
}

/// Of division, as Python has it.
bool divides(Interpreter& at, const Value& value, std::int64_t by) {
  const Value rest = arithmetic("%", value, Value(by), at.budget());
  return !truth(rest);
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
    {"sequence", [](Interpreter&, const Value& v,
                    Arguments&) { return v.list() || v.dict() || v.text() || v.undefined(); }},
    {"iterable",
     [](Interpreter&, const Value& v, Arguments&) {
       return v.list() || v.dict() || v.text() || v.undefined() || v.loop();
     }},
    {"callable", [](Interpreter&, const Value& v, Arguments&) { return v.callable() != nullptr; }},
    {"sameas", [](Interpreter& at, const Value& v,
                  Arguments& with) { return same(at, v, with.require("other")); }},
    {"odd", [](Interpreter& at, const Value& v, Arguments&) { return !divides(at, v, 2); }},
    {"even", [](Interpreter& at, const Value& v, Arguments&) { return divides(at, v, 2); }},
    {"divisibleby",
     [](Interpreter& at, const Value& v, Arguments& with) {
       return divides(at, v, as_integer(with.require("num"), "what divides"));
     }},
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

} // namespace

bool knows_test(std::string_view name) {
  return std::any_of(std::begin(tests), std::end(tests),
                     [&](const NamedTest& t) { return t.name == name; });
}

bool apply_test(Interpreter& at, const std::string& name, const Value& subject,
                Arguments& arguments) {
  const auto* test = std::find_if(std::begin(tests), std::end(tests),
                                  [&](const NamedTest& t) { return t.name == name; });
  if (test == std::end(tests))
    unsupported(fmt::format("the test '{}'", name));
  at.budget().spend();
  const bool holds = test->holds(at, subject, arguments);
  arguments.finish();
  return holds;
}

} // namespace paceline::text::jinja
