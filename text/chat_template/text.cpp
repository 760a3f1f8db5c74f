// Values as texts: what `{{ value }}` shows, and JSON.
#include "text/chat_template/strings.hpp"
#include "text/chat_template/value.hpp"

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

/// As Python's repr.
class Writer {
public:
  explicit Writer(Budget& budget) : budget_(budget) {}
  std::string take() { return std::move(out_); }

  void write(const Value& value) {
    budget_.spend();
    if (const ListValue* list = value.list())
      write_list(*list);
    else if (const DictValue* dict = value.dict())
      write_dict(*dict);
    else if (const std::string* text = value.text())
      put(quoted(*text));
    else if (value.number() || value.none())
      put(constant_text(value));
    else if (value.undefined())
      put("Undefined");
    else
      unsupported(fmt::format("showing a {}", type_name(value)));
  }

private:
  void put(std::string_view text) {
    budget_.spend_text(text.size());
    if (out_.size() + text.size() > limits::template_text_bytes_max)
      mistake("the template makes a text that is too long");
    out_ += text;
  }
  void write_list(const ListValue& list) {
    put(list.tuple ? "(" : "[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      put(i > 0 ? ", " : "");
      write(list.items[i]);
    }
    put(!list.tuple ? "]" : list.items.size() == 1 ? ",)" : ")");
  }
  void write_dict(const DictValue& dict) {
    put("{");
    for (std::size_t i = 0; i < dict.members.size(); ++i) {
      put((i > 0 ? ", " : "") + quoted(dict.members[i].first) + ": ");
      write(dict.members[i].second);
    }
    put("}");
  }

  Budget& budget_;
  std::string out_;
};

class JsonWriter {
public:
  JsonWriter(int indent, Budget& budget) : budget_(budget), indent_(indent) {}
  std::string take() { return std::move(out_); }

  void write(const Value& value, int level = 0) {
    budget_.spend();
    if (const ListValue* list = value.list())
      write_list(*list, level);
    else if (const DictValue* dict = value.dict())
      write_dict(*dict, level);
    else if (const std::string* text = value.text())
      put(json_quoted(*text));
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
  void put(std::string_view text) {
    budget_.spend_text(text.size());
    if (out_.size() + text.size() > limits::template_text_bytes_max)
      mistake("the template makes a text that is too long");
    out_ += text;
  }
  void line(int level) {
    if (indent_ >= 0)
      put("\n" + std::string(std::size_t(level) * std::size_t(indent_), ' '));
  }
  void separate(std::size_t i, int level) {
    if (i > 0)
      put(indent_ >= 0 ? "," : ", ");
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
    for (std::size_t i = 0; i < dict.members.size(); ++i) {
      separate(i, level + 1);
      put(json_quoted(dict.members[i].first) + ": ");
      write(dict.members[i].second, level + 1);
    }
    if (!dict.members.empty())
      line(level);
    put("}");
  }

  Budget& budget_;
  std::string out_;
  int indent_;
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

std::string to_json(const Value& value, int indent, Budget& budget) {
  JsonWriter writer(indent, budget);
  writer.write(value);
  return writer.take();
}

} // namespace paceline::text::jinja
