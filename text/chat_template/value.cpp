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
  if (const Callable* callable = value.callable())
    return 1 + depth_of(callable->self);
  return 0;
}

int checked_depth(int inner) {
  if (inner >= limits::template_nesting_max)
    mistake("the template nests values too deeply");
  return inner + 1;
}

[[noreturn]] void refuse(const Value& value, const char* what) {
  if (const Undefined* missing = value.missing())
    mistake(missing->what);
  mistake(fmt::format("{} is of type {}", what, type_name(value)));
}

} // namespace

Value::Value(Callable x) {
  if (!x.self.undefined())
    (void)checked_depth(depth_of(x.self));
  data_ = std::make_shared<const Callable>(std::move(x));
}

Value::Value(ListValue x) {
  int inner = 0;
  for (const Value& item : x.items)
    inner = std::max(inner, depth_of(item));
  x.depth = checked_depth(inner);
  data_ = std::make_shared<const ListValue>(std::move(x));
}

Value Value::list(List items) {
  return Value(ListValue{std::move(items)});
}

Value Value::tuple(List items) {
  return Value(ListValue{std::move(items), ListValue::Kind::tuple});
}

Value Value::dict(Members members) {
  Entries entries;
  entries.reserve(members.size());
  for (auto& [name, value] : members)
    entries.emplace_back(Value(std::move(name)), std::move(value));
  return dict_of(std::move(entries));
}

Value Value::dict_of(Entries entries) {
  int inner = 0;
  for (const auto& [key, value] : entries)
    inner = std::max({inner, depth_of(key), depth_of(value)});
  Value out;
  out.data_ =
      std::make_shared<const DictValue>(DictValue{std::move(entries), checked_depth(inner)});
  return out;
}

Value Value::markup(std::string text) {
  Value out(std::move(text));
  out.markup_ = true;
  return out;
}

bool Value::is_tuple() const {
  return list() && list()->kind == ListValue::Kind::tuple;
}

bool Value::is_plain_list() const {
  return list() && list()->kind == ListValue::Kind::list;
}

const Value* DictValue::find(std::string_view key) const {
  for (const auto& [own, value] : entries)
    if (const std::string* name = own.text(); name && *name == key)
      return &value;
  return nullptr;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [own, value] : members)
    if (own == name)
      return &value;
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [own, old] : members)
    if (own == name) {
      old = std::move(value);
      return;
    }
  members.emplace_back(name, std::move(value));
}

namespace {

const char* list_name(ListValue::Kind kind) {
  switch (kind) {
  case ListValue::Kind::list: return "list";
  case ListValue::Kind::tuple: return "tuple";
  case ListValue::Kind::range: return "range";
  case ListValue::Kind::keys: return "dict_keys";
  case ListValue::Kind::values: return "dict_values";
  case ListValue::Kind::items: return "dict_items";
  }
  return "list";
}

} // namespace

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
    return list_name(list->kind);
  if (value.dict())
    return "dict";
  if (const Iterator* iterator = value.iterator())
    return iterator->type;
  if (const Counter* counter = value.counter())
    return counter->kind == Counter::Kind::cycler ? "cycler" : "joiner";
  return value.space() ? "namespace" : value.loop() ? "loop" : "function";
}

void check_defined(const Value& value) {
  if (const Undefined* missing = value.missing())
    mistake(missing->what);
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

bool iterable(const Value& value) {
  return value.list() || value.dict() || value.text() || value.iterator() || value.loop() ||
         value.undefined();
}

std::size_t length(const Value& value) {
  if (const ListValue* list = value.list())
    return list->items.size();
  if (const DictValue* dict = value.dict())
    return dict->entries.size();
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
