// Conversion of values to texts: what `{{ value }}` shows, and JSON.
#include "text/chat_template/interpreter.hpp"
#include "text/chat_template/strings.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

std::string constant_text(const Value& value) {
  if (const bool* boolean = value.boolean())
    return *boolean ? "True" : "False";
  if (const std::int64_t* integer = value.integer())
    return std::to_string(*integer);
  if (const double* real = value.real())
    return number_text(*real);
  return value.none() ? "None" : std::string();
}

/// A text that is written within a budget.
class Text {
public:
  explicit Text(Budget& budget) : budget_(budget) {}
  std::string take() { return std::move(out_); }

protected:
  void put(std::string_view text) {
    budget_.spend_text(text.size());
    if (out_.size() + text.size() > limits::template_text_bytes_max)
      mistake("the template makes a text that is too long");
    out_ += text;
  }

  Budget& budget_;

private:
  std::string out_;
};

/// Writes what Python's repr gives.
class Writer : public Text {
public:
  using Text::Text;

  void write(const Value& value) {
    budget_.spend();
    if (const ListValue* list = value.list())
      write_list(*list);
    else if (const DictValue* dict = value.dict())
      write_dict(*dict);
    else if (const std::string* text = value.text())
      put(value.is_markup() ? "Markup(" + quoted(*text) + ")" : quoted(*text));
    else if (value.number() || value.none())
      put(constant_text(value));
    else if (value.undefined())
      put("Undefined");
    else
      write_object(value);
  }

private:
  void write_list(const ListValue& list) {
    const Range& range = list.range;
    const bool step = range.step != 1;
    switch (list.kind) {
    case ListValue::Kind::list: return write_items(list, "[", "]");
    case ListValue::Kind::tuple: return write_items(list, "(", list.items.size() == 1 ? ",)" : ")");
    case ListValue::Kind::keys: return write_items(list, "dict_keys([", "])");
    case ListValue::Kind::values: return write_items(list, "dict_values([", "])");
    case ListValue::Kind::items: return write_items(list, "dict_items([", "])");
    case ListValue::Kind::range:
      put(fmt::format("range({}, {}{})", range.begin, range.end,
                      step ? fmt::format(", {}", range.step) : ""));
    }
  }
  void write_items(const ListValue& list, std::string_view begin, std::string_view end) {
    put(begin);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      put(i > 0 ? ", " : "");
      write(list.items[i]);
    }
    put(end);
  }
  void write_dict(const DictValue& dict) {
    write_entries(dict.entries, [this](const Value& key) { write(key); });
  }
  template <class List, class Key>
  void write_entries(const List& entries, Key write_key) {
    put("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      put(i > 0 ? ", " : "");
      write_key(entries[i].first);
      put(": ");
      write(entries[i].second);
    }
    put("}");
  }
  void write_object(const Value& value) {
    const Callable* callable = value.callable();
    if (LoopValue* loop = value.loop())
      return put(fmt::format("<LoopContext {}/{}>", loop->turns, loop->length()));
    if (callable && callable->macro)
      return put(callable->name.empty() ? "<Macro anonymous>"
                                        : "<Macro " + quoted(callable->name) + ">");
    const Namespace* space = value.space();
    if (!space)
      unsupported(fmt::format("showing a {}", type_name(value)));
    const Descent descent(depth_); // a namespace may hold itself
    put("<Namespace ");
    write_entries(space->members, [this](const std::string& key) { put(quoted(key)); });
    put(">");
  }

  int depth_ = 0;
};

class JsonWriter : public Text {
public:
  JsonWriter(const JsonStyle& style, Budget& budget) : Text(budget), style_(style) {}

  void write(const Value& value, int level = 0) {
    budget_.spend();
    if (value.is_plain_list() || value.is_tuple())
      write_list(*value.list(), level);
    else if (const DictValue* dict = value.dict())
      write_dict(*dict, level);
    else if (const std::string* text = value.text())
      put(json_quoted(*text, style_.ascii));
    else if (const bool* boolean = value.boolean())
      put(*boolean ? "true" : "false");
    else if (value.none())
      put("null");
    else if (value.number())
      put(number(value));
    else
      mistake(fmt::format("tojson cannot write a value of type {}", type_name(value)));
  }

private:
  static std::string number(const Value& value) {
    const double* real = value.real();
    if (real && !std::isfinite(*real))
      return std::isnan(*real) ? "NaN" : *real < 0 ? "-Infinity" : "Infinity";
    return constant_text(value);
  }
  void line(int level) {
    if (!style_.indent)
      return;
    put("\n");
    for (int i = 0; i < level; ++i)
      put(*style_.indent);
  }
  void separate(std::size_t i, int level) {
    if (i > 0)
      put(style_.between_items);
    line(level);
  }
  void write_list(const ListValue& list, int level) {
    put("[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      separate(i, level + 1);
      write(list.items[i], level + 1);
    }
    if (!list.items.empty())
      line(level);
    put("]");
  }
  void write_dict(const DictValue& dict, int level) {
    put("{");
    Entries entries = dict.entries;
    if (style_.sorted)
      std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
        return less(a.first, b.first, budget_);
      });
    for (std::size_t i = 0; i < entries.size(); ++i) {
      separate(i, level + 1);
      put(json_quoted(key(entries[i].first), style_.ascii) + style_.behind_key);
      write(entries[i].second, level + 1);
    }
    if (!entries.empty())
      line(level);
    put("}");
  }
  static std::string key(const Value& of) {
    if (const std::string* text = of.text())
      return *text;
    if (const bool* boolean = of.boolean())
      return *boolean ? "true" : "false";
    if (of.none())
      return "null";
    if (of.number())
      return number(of);
    mistake(fmt::format("tojson cannot write a key of type {}", type_name(of)));
  }

  const JsonStyle& style_;
};

} // namespace

std::string to_text(const Value& value, Budget& budget) {
  if (const std::string* text = value.text()) {
    budget.spend_text(text->size());
    return *text;
  }
  if (value.undefined())
    return {};
  Writer writer(budget);
  writer.write(value);
  return writer.take();
}

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  writer.write(value);
  return writer.take();
}

} // namespace paceline::text::jinja
