#include "text/chat_template/value.hpp"

#include "text/chat_template/strings.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

int depth_of(const Value& value) {
  if (const ListValue* list = value.list())
    return list->depth;
  if (const DictValue* dict = value.dict())
    return dict->depth;
  if (const LoopValue* loop = value.loop())
    return 1 + depth_of(loop->items);
  if (const Callable* callable = value.callable())
    return 1 + depth_of(callable->self);
  return 0;
}

int checked_depth(int inner) {
  if (inner >= limits::template_nesting_max)
    mistake("the template nests values too deeply");
  return inner + 1;
}

/// Both as numbers, as exactly as they are.
int compare_numbers(const Value& a, const Value& b) {
  if (a.real() || b.real()) {
    const double x = as_real(a);
    const double y = as_real(b);
    return x < y ? -1 : x > y ? 1 : 0;
  }
  const std::int64_t x = as_integer(a, "");
  const std::int64_t y = as_integer(b, "");
  return x < y ? -1 : x > y ? 1 : 0;
}

bool equal_lists(const ListValue& a, const ListValue& b, Budget& budget) {
  return a.tuple == b.tuple &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    [&](const Value& x, const Value& y) { return equal(x, y, budget); });
}

bool equal_dicts(const DictValue& a, const DictValue& b, Budget& budget) {
  const auto in_b = [&](const auto& member) {
    const Value* other = b.find(member.first);
    return other && equal(member.second, *other, budget);
  };
  return a.members.size() == b.members.size() &&
         std::all_of(a.members.begin(), a.members.end(), in_b);
}

[[noreturn]] void refuse(const Value& value, const char* what) {
  if (const Undefined* missing = value.missing())
    mistake(missing->what);
  mistake(fmt::format("{} is of type {}", what, type_name(value)));
}

} // namespace

Value::Value(LoopValue x) : data_(std::make_shared<const LoopValue>(std::move(x))) {}

Value::Value(Callable x) {
  if (!x.self.undefined())
    (void)checked_depth(depth_of(x.self));
  data_ = std::make_shared<const Callable>(std::move(x));
}

Value Value::list(List items, bool tuple) {
  int inner = 0;
  for (const Value& item : items)
    inner = std::max(inner, depth_of(item));
  Value out;
  out.data_ =
      std::make_shared<const ListValue>(ListValue{std::move(items), tuple, checked_depth(inner)});
  return out;
}

Value Value::dict(Members members) {
  int inner = 0;
  for (const auto& [key, value] : members)
    inner = std::max(inner, depth_of(value));
  Value out;
  out.data_ =
      std::make_shared<const DictValue>(DictValue{std::move(members), checked_depth(inner)});
  return out;
}

Namespace* Value::space() const {
  const auto* found = std::get_if<Namespace*>(&data_);
  return found ? *found : nullptr;
}

const Value* DictValue::find(std::string_view key) const {
  for (const auto& [name, value] : members)
    if (name == key)
      return &value;
  return nullptr;
}

const char* type_name(const Value& value) {
  if (value.undefined())
    return "undefined";
  if (value.none())
    return "NoneType";
  if (value.boolean())
    return "bool";
  if (value.integer())
    return "int";
  if (value.real())
    return "float";
  if (value.text())
    return "str";
  if (const ListValue* list = value.list())
    return list->tuple ? "tuple" : "list";
  if (value.dict())
    return "dict";
  return value.space() ? "namespace" : value.loop() ? "loop" : "function";
}

bool truth(const Value& value) {
  if (value.undefined() || value.none())
    return false;
  if (value.number())
    return as_real(value) != 0;
  if (value.text() || value.list() || value.dict())
    return length(value) > 0;
  return true;
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.spend();
  if (a.number() && b.number())
    return compare_numbers(a, b) == 0;
  if (a.text() && b.text())
    return *a.text() == *b.text();
  if (a.list() && b.list())
    return a.list() == b.list() || equal_lists(*a.list(), *b.list(), budget);
  if (a.dict() && b.dict())
    return a.dict() == b.dict() || equal_dicts(*a.dict(), *b.dict(), budget);
  return (a.none() && b.none()) || (a.undefined() && b.undefined()) ||
         (a.space() && a.space() == b.space()) || (a.callable() && a.callable() == b.callable()) ||
         (a.loop() && a.loop() == b.loop());
}

bool less(const Value& a, const Value& b, Budget& budget) {
  budget.spend();
  if (a.number() && b.number())
    return compare_numbers(a, b) < 0;
  if (a.text() && b.text())
    return *a.text() < *b.text(); // UTF-8 keeps the order of code points
  if (a.list() && b.list() && a.list()->tuple == b.list()->tuple) {
    const List& x = a.list()->items;
    const List& y = b.list()->items;
    const auto [p, q] = std::mismatch(
        x.begin(), x.end(), y.begin(), y.end(),
        [&](const Value& one, const Value& other) { return equal(one, other, budget); });
    return p == x.end() ? q != y.end() : q != y.end() && less(*p, *q, budget);
  }
  for (const Value& side : {a, b})
    if (const Undefined* missing = side.missing())
      mistake(missing->what);
  mistake(fmt::format("{} and {} have no order", type_name(a), type_name(b)));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  budget.spend();
  if (const std::string* text = container.text()) {
    budget.spend_text(text->size());
    return text->find(as_text(item, "what is looked for in a text")) != std::string::npos;
  }
  if (const DictValue* dict = container.dict())
    return item.text() && dict->find(*item.text());
  if (container.undefined())
    return false;
  const ListValue* list = container.list();
  if (!list)
    refuse(container, "what is searched");
  return std::any_of(list->items.begin(), list->items.end(),
                     [&](const Value& own) { return equal(own, item, budget); });
}

List items_of(const Value& value, Budget& budget) {
  List out;
  if (const ListValue* list = value.list()) {
    budget.spend(list->items.size());
    return list->items;
  }
  if (const DictValue* dict = value.dict()) {
    budget.spend(dict->members.size());
    for (const auto& [key, member] : dict->members)
      out.emplace_back(key);
  } else if (const std::string* text = value.text()) {
    budget.spend(text->size());
    for (const std::string_view character : characters(*text))
      out.emplace_back(character);
  } else if (!value.undefined()) {
    refuse(value, "what is iterated over");
  }
  return out;
}

std::size_t length(const Value& value) {
  if (const ListValue* list = value.list())
    return list->items.size();
  if (const DictValue* dict = value.dict())
    return dict->members.size();
  if (const std::string* text = value.text())
    return character_count(*text);
  if (!value.undefined())
    refuse(value, "what has its length taken");
  return 0;
}

double as_real(const Value& number) {
  if (const double* real = number.real())
    return *real;
  return double(as_integer(number, "a number"));
}

std::int64_t as_integer(const Value& value, const char* what) {
  if (const bool* boolean = value.boolean())
    return *boolean ? 1 : 0;
  if (const std::int64_t* integer = value.integer())
    return *integer;
  refuse(value, what);
}

const std::string& as_text(const Value& value, const char* what) {
  if (const std::string* text = value.text())
    return *text;
  refuse(value, what);
}

} // namespace paceline::text::jinja
