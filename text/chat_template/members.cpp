// Implements `of.name` and `of[index]`.
#include "text/chat_template/interpreter.hpp"
#include "text/chat_template/strings.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

Value absent(const Value& of, std::string_view name) {
  return Value(Undefined{fmt::format("'{}' has no member '{}'", type_name(of), name)});
}

Value loop_number(LoopValue& loop, std::string_view name) {
  const auto turn = std::int64_t(loop.turns);
  if (name == "index")
    return Value(turn);
  if (name == "index0")
    return Value(turn - 1);
  if (name == "depth")
    return Value(loop.depth);
  if (name == "depth0")
    return Value(loop.depth - 1);
  const auto length = std::int64_t(loop.length());
  return Value(name == "length" ? length : length - turn + (name == "revindex" ? 1 : 0));
}

Value loop_member(LoopValue& loop, const Value& self, const std::string& name) {
  for (const char* number :
       {"index", "index0", "revindex", "revindex0", "length", "depth", "depth0"})
    if (name == number)
      return loop_number(loop, name);
  if (name == "first")
    return Value(loop.turns == 1);
  if (name == "last")
    return Value(!loop.peek());
  if (name == "previtem")
    return loop.previous.value_or(Value(Undefined{"there is no previous item"}));
  if (name == "nextitem")
    return loop.peek() ? loop.ahead.front() : Value(Undefined{"there is no next item"});
  return is_method(self, name) ? Value(Callable{name, self}) : absent(self, name);
}

Value counter_member(const Counter& counter, const Value& self, const std::string& name) {
  if (name == "current" && counter.kind == Counter::Kind::cycler)
    return counter.items[counter.at];
  return is_method(self, name) ? Value(Callable{name, self}) : absent(self, name);
}

/// Returns a member of a tuple whose items have names.
std::optional<Value> named_item(const ListValue& list, std::string_view name) {
  const auto at = std::find(list.names.begin(), list.names.end(), name);
  if (at == list.names.end())
    return {};
  return list.items[std::size_t(at - list.names.begin())];
}

std::optional<Value> macro_member(const Statement& macro, const std::string& name) {
  const auto catches = [&](const char* what) {
    return Value(std::find(macro.catches.begin(), macro.catches.end(), what) !=
                 macro.catches.end());
  };
  if (name == "name")
    return Value(macro.text);
  if (name == "catch_varargs")
    return catches("varargs");
  if (name == "catch_kwargs")
    return catches("kwargs");
  if (name == "caller")
    return catches("caller");
  if (name != "arguments")
    return {};
  List names;
  for (const auto& [parameter, fallback] : macro.parameters)
    names.emplace_back(parameter);
  return Value::tuple(std::move(names));
}

/// Returns what is found by key or position, if anything.
std::optional<Value> found(const Value& of, const Value& index, Budget& budget) {
  if (const DictValue* dict = of.dict()) {
    const ListValue* key = index.list();
    if (index.dict() || (key && key->kind != ListValue::Kind::tuple))
      return {}; // these cannot be keys
    const Value* value = dict->find(index, budget);
    return value ? std::optional(*value) : std::nullopt;
  }
  const bool whole = index.integer() || index.boolean();
  const ListValue* items = of.list();
  const bool view =
      items && (items->kind == ListValue::Kind::keys || items->kind == ListValue::Kind::values ||
                items->kind == ListValue::Kind::items);
  if (!whole || view || (!items && !of.text()))
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

} // namespace

std::optional<Value> attribute(const Value& of, const std::string& name) {
  check_defined(of);
  if (name.starts_with('_'))
    return {}; // the sandbox hides these
  if (LoopValue* loop = of.loop())
    return loop_member(*loop, of, name);
  if (const Counter* counter = of.counter())
    return counter_member(*counter, of, name);
  if (const Namespace* space = of.space()) {
    const Value* value = space->find(name);
    return value ? std::optional(*value) : std::nullopt;
  }
  if (const ListValue* list = of.list(); list && !list->names.empty())
    if (auto value = named_item(*list, name))
      return value;
  if (of.callable() && of.callable()->macro)
    return macro_member(*of.callable()->macro, name);
  if (is_method(of, name))
    return Value(Callable{name, of});
  return {};
}

Value member(const Value& of, const std::string& name, Budget& budget) {
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
