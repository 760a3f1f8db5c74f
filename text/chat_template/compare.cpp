// Comparisons: which values are equal, smaller, the same, or fit to be keys.
#include "text/chat_template/value.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

using Kind = ListValue::Kind;

/// Compares two values as numbers; unordered if one is not a number. A long double holds every
/// whole number of 64 bits and every double.
std::partial_ordering compare_numbers(const Value& a, const Value& b) {
  const auto exact = [](const Value& x) {
    return x.real() ? static_cast<long double>(*x.real())
                    : static_cast<long double>(as_integer(x, "a number"));
  };
  return exact(a) <=> exact(b);
}

bool equal_items(const List& a, const List& b, Budget& budget) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Value& x, const Value& y) { return equal(x, y, budget); });
}

bool is_set(Kind kind) {
  return kind == Kind::keys || kind == Kind::items;
}

bool equal_lists(const ListValue& a, const ListValue& b, Budget& budget) {
  if (is_set(a.kind) && is_set(b.kind))
    return a.items.size() == b.items.size() &&
           std::all_of(a.items.begin(), a.items.end(), [&](const Value& x) {
             return std::any_of(b.items.begin(), b.items.end(),
                                [&](const Value& y) { return equal(x, y, budget); });
           });
  return a.kind == b.kind && a.kind != Kind::values && equal_items(a.items, b.items, budget);
}

bool equal_dicts(const DictValue& a, const DictValue& b, Budget& budget) {
  const auto in_b = [&](const auto& entry) {
    const Value* other = b.find(entry.first, budget);
    return other && equal(entry.second, *other, budget);
  };
  return a.entries.size() == b.entries.size() &&
         std::all_of(a.entries.begin(), a.entries.end(), in_b);
}

bool ordered_lists(const Value& a, const Value& b) {
  return (a.is_tuple() && b.is_tuple()) || (a.is_plain_list() && b.is_plain_list());
}

/// Returns whether both are one object; undefined values, numbers and texts are none.
bool same_object(const Value& a, const Value& b) {
  return (a.list() && a.list() == b.list()) || (a.dict() && a.dict() == b.dict()) ||
         (a.callable() && a.callable() == b.callable()) || (a.space() && a.space() == b.space()) ||
         (a.loop() && a.loop() == b.loop()) || (a.iterator() && a.iterator() == b.iterator()) ||
         (a.counter() && a.counter() == b.counter());
}

/// Returns whether both are one function, though functions are made anew at each mention.
bool same_function(const Value& a, const Value& b) {
  const Callable* x = a.callable();
  const Callable* y = b.callable();
  return x && y && x->name == y->name && x->macro == y->macro && x->scope == y->scope &&
         x->self.undefined() && y->self.undefined();
}

} // namespace

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
  return (a.none() && b.none()) || (a.undefined() && b.undefined()) || same_object(a, b) ||
         same_function(a, b);
}

bool less(const Value& a, const Value& b, Budget& budget) {
  budget.spend();
  if (a.number() && b.number())
    return compare_numbers(a, b) < 0;
  if (a.text() && b.text())
    return *a.text() < *b.text(); // UTF-8 keeps the order of code points
  if (ordered_lists(a, b)) {
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

bool same(const Value& a, const Value& b) {
  if (a.boolean() || b.boolean())
    return a.boolean() && b.boolean() && *a.boolean() == *b.boolean();
  if (a.integer() && b.integer())
    return *a.integer() == *b.integer();
  if (a.real() && b.real())
    return *a.real() == *b.real();
  if (a.text() && b.text())
    return a.text() == b.text() || (a.text()->size() < 2 && *a.text() == *b.text());
  if (a.is_tuple() && b.is_tuple() && length(a) == 0 && length(b) == 0)
    return true;
  return (a.none() && b.none()) || same_object(a, b) || same_function(a, b);
}

void check_key(const Value& value) {
  const ListValue* list = value.list();
  if (value.dict() || (list && (list->kind == Kind::list || is_set(list->kind))))
    mistake(fmt::format("a value of type {} cannot be a key", type_name(value)));
  if (list && list->kind == Kind::tuple)
    for (const Value& item : list->items)
      check_key(item);
}

const Value* DictValue::find(const Value& key, Budget& budget) const {
  check_key(key);
  budget.spend(1 + entries.size() / 8);
  if (const std::string* name = key.text())
    return find(std::string_view(*name));
  for (const auto& [own, value] : entries)
    if (!own.text() && equal(own, key, budget))
      return &value;
  return nullptr;
}

void set_entry(Entries& entries, const Value& key, Value value, Budget& budget) {
  check_key(key);
  budget.spend(1 + entries.size() / 8);
  for (auto& [own, old] : entries)
    if (key.text() ? own.text() && *own.text() == *key.text() : equal(own, key, budget)) {
      old = std::move(value);
      return;
    }
  entries.emplace_back(key, std::move(value));
}

} // namespace paceline::text::jinja
