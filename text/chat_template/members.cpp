// `of.name` and `of[index]`.
#include "text/chat_template/interpreter.hpp"
#include "text/chat_template/strings.hpp"

#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

Value absent(const Value& of, std::string_view name) {
  return Value(Undefined{fmt::format("'{}' has no member '{}'", type_name(of), name)});
}

Value loop_member(const LoopValue& loop, const Value& self, const std::string& name) {
  const List& items = loop.items.list()->items;
  const std::size_t i = loop.index;
  if (name == "index")
    return Value::count(i + 1);
  if (name == "index0")
    return Value::count(i);
  if (name == "revindex")
    return Value::count(items.size() - i);
  if (name == "revindex0")
    return Value::count(items.size() - i - 1);
  if (name == "first")
    return Value(i == 0);
  if (name == "last")
    return Value(i + 1 == items.size());
  if (name == "length")
    return Value::count(items.size());
  if (name == "depth")
    return Value(std::int64_t(1)); // more in recursive loops only
  if (name == "depth0")
    return Value(std::int64_t(0));
  if (name == "previtem")
    return i > 0 ? items[i - 1] : Value(Undefined{"there is no previous item"});
  if (name == "nextitem")
    return i + 1 < items.size() ? items[i + 1] : Value(Undefined{"there is no next item"});
  if (name == "cycle")
    return Value(Callable{name, self});
  if (name == "changed")
    unsupported("loop.changed");
  return absent(self, name);
}

/// What is found by key or position, if anything.
std::optional<Value> found(const Value& of, const Value& index, Budget& budget) {
  if (const DictValue* dict = of.dict()) {
    const Value* value = index.text() ? dict->find(*index.text()) : nullptr;
    return value ? std::optional(*value) : std::nullopt;
  }
  const bool whole = index.integer() || index.boolean();
  if (!whole || (!of.list() && !of.text()))
    return {};
  const auto size = std::int64_t(length(of));
  std::int64_t at = as_integer(index, "an index");
  at += at < 0 ? size : 0;
  if (at < 0 || at >= size)
    return {};
  if (const ListValue* list = of.list())
    return list->items[std::size_t(at)];
  budget.spend_text(of.text()->size());
  return Value(characters(*of.text())[std::size_t(at)]);
}

/// What Python would find as an attribute.
std::optional<Value> attribute(const Value& of, const std::string& name) {
  if (const LoopValue* loop = of.loop())
    return loop_member(*loop, of, name);
  if (const Namespace* space = of.space()) {
    const auto at = space->find(name);
    return at == space->end() ? std::nullopt : std::optional(at->second);
  }
  if (is_method(of, name))
    return Value(Callable{name, of});
  return {};
}

void check_defined(const Value& of) {
  if (const Undefined* missing = of.missing())
    mistake(missing->what);
}

} // namespace

Value member(const Value& of, const std::string& name, Budget& budget) {
  check_defined(of);
  if (auto value = attribute(of, name))
    return *std::move(value);
  return found(of, Value(name), budget).value_or(absent(of, name));
}

Value item(const Value& of, const Value& index, Budget& budget) {
  check_defined(of);
  if (auto value = found(of, index, budget))
    return *std::move(value);
  if (!index.text())
    return Value(Undefined{fmt::format("'{}' has no such item", type_name(of))});
  return attribute(of, *index.text()).value_or(absent(of, *index.text()));
}

} // namespace paceline::text::jinja
