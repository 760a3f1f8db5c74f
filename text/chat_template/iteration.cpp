// Iteration over values.
#include "text/chat_template/interpreter.hpp"
#include "text/chat_template/strings.hpp"
#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

[[noreturn]] void refuse(const Value& value, const char* what) {
  mistake(fmt::format("{} is of type {}", what, type_name(value)));
}

/// Gives the items number 0, 1, ... up to `size`.
template <class At>
Pull counted(std::size_t size, Budget& budget, At at) {
  return [size, &budget, at = std::move(at), i = std::size_t(0)]() mutable -> std::optional<Value> {
    if (i == size)
      return {};
    budget.spend();
    return at(i++);
  };
}

Pull characters_of(const Value& text, Budget& budget) {
  return [text, &budget, at = std::size_t(0)]() mutable -> std::optional<Value> {
    const std::string_view rest = std::string_view(*text.text()).substr(at);
    if (rest.empty())
      return {};
    budget.spend();
    const std::size_t size = first_character(rest).size;
    at += size;
    return Value(rest.substr(0, size));
  };
}

} // namespace

Pull iterate(const Value& value, Budget& budget) {
  if (const ListValue* list = value.list())
    return counted(list->items.size(), budget,
                   [value](std::size_t i) { return value.list()->items[i]; });
  if (const DictValue* dict = value.dict())
    return counted(dict->entries.size(), budget,
                   [value](std::size_t i) { return value.dict()->entries[i].first; });
  if (value.text())
    return characters_of(value, budget);
  if (Iterator* iterator = value.iterator())
    return [iterator] { return iterator->next(); };
  if (!value.undefined())
    refuse(value, "what is iterated over");
  return [] { return std::optional<Value>(); };
}

List items_of(const Value& value, Budget& budget) {
  if (const ListValue* list = value.list()) {
    budget.spend(list->items.size());
    return list->items;
  }
  List out;
  const Pull next = iterate(value, budget);
  while (auto item = next())
    out.push_back(*std::move(item));
  return out;
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  budget.spend();
  if (const std::string* text = container.text()) {
    budget.spend_text(text->size());
    return text->find(as_text(item, "what is looked for in a text")) != std::string::npos;
  }
  if (const DictValue* dict = container.dict())
    return dict->find(item, budget) != nullptr;
  const auto found = [&](const Value& own) {
    return (!own.real() && same(own, item)) || equal(own, item, budget);
  };
  if (const ListValue* list = container.list()) {
    if (list->kind == ListValue::Kind::keys)
      check_key(item);
    return std::any_of(list->items.begin(), list->items.end(), found);
  }
  if (!container.iterator() && !container.undefined())
    refuse(container, "what is searched");
  const Pull next = iterate(container, budget);
  while (auto own = next())
    if (found(*own))
      return true;
  return false;
}

} // namespace paceline::text::jinja
