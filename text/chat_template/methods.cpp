// Methods of lists, dicts, loops and cyclers. There are none that change a value, as in the
// reference's sandbox.
#include "text/chat_template/methods.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

Value counted(Interpreter& at, const Value& self, Arguments& arguments) {
  const Value what = arguments.require("value");
  const List& items = self.list()->items;
  return Value::count(std::size_t(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(item, what, at.budget());
  })));
}

Value index(Interpreter& at, const Value& self, Arguments& arguments) {
  const Value what = arguments.require("value");
  const List& items = self.list()->items;
  const auto size = std::int64_t(items.size());
  const auto bound = [&](std::int64_t other) {
    const std::int64_t given = arguments.integer("", other);
    return std::clamp<std::int64_t>(given < 0 ? given + size : given, 0, size);
  };
  const std::int64_t begin = bound(0);
  const std::int64_t end = bound(size);
  for (std::int64_t i = begin; i < end; ++i)
    if (equal(items[std::size_t(i)], what, at.budget()))
      return Value(i);
  mistake("index finds nothing");
}

Value itself(Interpreter&, const Value& self, Arguments&) {
  return self;
}

Value get(Interpreter& at, const Value& self, Arguments& arguments) {
  const Value key = arguments.require("key");
  const auto fallback = arguments.take("");
  const Value* value = self.dict()->find(key, at.budget());
  return value ? *value : fallback.value_or(Value(None{}));
}

template <ListValue::Kind kind>
Value view(Interpreter& at, const Value& self, Arguments&) {
  List out;
  at.budget().spend(4 * self.dict()->entries.size());
  for (const auto& [key, value] : self.dict()->entries)
    out.push_back(kind == ListValue::Kind::keys     ? key
                  : kind == ListValue::Kind::values ? value
                                                    : Value::tuple({key, value}));
  return Value(ListValue{std::move(out), kind});
}

Value from_keys(Interpreter& at, const Value&, Arguments& arguments) {
  const Value keys = arguments.require("iterable");
  const Value value = arguments.take("").value_or(Value(None{}));
  Entries out;
  const Pull next = iterate(keys, at.budget());
  while (const auto key = next())
    set_entry(out, *key, value, at.budget());
  return Value::dict_of(std::move(out));
}

Value cycle(Interpreter&, const Value& self, Arguments& arguments) {
  const List values = arguments.take_rest();
  if (values.empty())
    mistake("loop.cycle has nothing to choose from");
  return values[(self.loop()->turns - 1) % values.size()];
}

Value changed(Interpreter& at, const Value& self, Arguments& arguments) {
  const Value now = Value::tuple(arguments.take_rest());
  LoopValue& loop = *self.loop();
  const bool same = loop.changed && equal(*loop.changed, now, at.budget());
  loop.changed = now;
  return Value(!same);
}

Value next(Interpreter&, const Value& self, Arguments&) {
  Counter& counter = *self.counter();
  const Value out = counter.items[counter.at];
  counter.at = (counter.at + 1) % counter.items.size();
  return out;
}

Value reset(Interpreter&, const Value& self, Arguments&) {
  self.counter()->at = 0;
  return Value(None{});
}

constexpr NamedMethod list_methods[] = {{"copy", itself}, {"count", counted}, {"index", index}};
constexpr NamedMethod tuple_methods[] = {{"count", counted}, {"index", index}};
constexpr NamedMethod dict_methods[] = {
    {"copy", itself},
    {"fromkeys", from_keys},
    {"get", get},
    {"items", view<ListValue::Kind::items>},
    {"keys", view<ListValue::Kind::keys>},
    {"values", view<ListValue::Kind::values>},
};
constexpr NamedMethod loop_methods[] = {{"changed", changed}, {"cycle", cycle}};
constexpr NamedMethod cycler_methods[] = {{"next", next}, {"reset", reset}};

std::span<const NamedMethod> methods_of(const Value& self) {
  if (self.text())
    return text_methods;
  if (const ListValue* list = self.list()) {
    if (list->kind == ListValue::Kind::list)
      return list_methods;
    const bool fixed = list->kind == ListValue::Kind::tuple || list->kind == ListValue::Kind::range;
    return fixed ? std::span<const NamedMethod>(tuple_methods) : std::span<const NamedMethod>();
  }
  if (self.dict())
    return dict_methods;
  if (const Counter* counter = self.counter(); counter && counter->kind == Counter::Kind::cycler)
    return cycler_methods;
  return self.loop() ? std::span<const NamedMethod>(loop_methods) : std::span<const NamedMethod>();
}

const NamedMethod* find_method(const Value& self, std::string_view name) {
  const auto methods = methods_of(self);
  const auto at = std::find_if(methods.begin(), methods.end(),
                               [&](const NamedMethod& m) { return m.name == name; });
  return at == methods.end() ? nullptr : &*at;
}

} // namespace

bool is_method(const Value& self, std::string_view name) {
  return find_method(self, name) != nullptr;
}

Value call_method(Interpreter& at, const Value& self, const std::string& name,
                  Arguments& arguments) {
  const NamedMethod* method = find_method(self, name);
  if (!method || !method->call)
    unsupported(fmt::format("the method '{}' of a value of type {}", name, type_name(self)));
  if (self.text())
    at.budget().spend_text(self.text()->size());
  Value out = method->call(at, self, arguments);
  arguments.finish();
  return out;
}

} // namespace paceline::text::jinja
