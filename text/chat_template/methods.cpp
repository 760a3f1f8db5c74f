// Methods of texts, lists, dicts and loops.
#include "text/chat_template/interpreter.hpp"
#include "text/chat_template/strings.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

using Method = Value (*)(Interpreter&, const Value& self, Arguments&);

const std::string& text_of(const Value& self) {
  return *self.text();
}

std::optional<std::string> optional_text(Arguments& arguments, const char* name) {
  const auto given = arguments.take(name);
  if (!given || given->none())
    return {};
  return as_text(*given, name);
}

template <Side side>
Value stripped(Interpreter&, const Value& self, Arguments& arguments) {
  const auto those = optional_text(arguments, "chars");
  return Value(strip(text_of(self), side, those));
}

Value texts(const std::vector<std::string_view>& parts) {
  List out;
  for (const std::string_view part : parts)
    out.emplace_back(part);
  return Value::list(std::move(out));
}

template <bool from_right>
Value split_text(Interpreter&, const Value& self, Arguments& arguments) {
  const auto separator = optional_text(arguments, "sep");
  const auto most = arguments.take("maxsplit");
  if (separator && separator->empty())
    mistake("split has an empty separator");
  return texts(
      split(text_of(self), separator, most ? as_integer(*most, "maxsplit") : -1, from_right));
}

Value lines(Interpreter&, const Value& self, Arguments&) {
  return texts(split_lines(text_of(self)));
}

/// One text, or a tuple of which one will do.
template <class Test>
Value has_affix(const Value& self, Arguments& arguments, Test test) {
  const Value affix = arguments.require("affix");
  if (const ListValue* several = affix.list(); several && several->tuple)
    return Value(std::any_of(several->items.begin(), several->items.end(), [&](const Value& one) {
      return test(text_of(self), as_text(one, "what a text begins or ends with"));
    }));
  return Value(test(text_of(self), as_text(affix, "what a text begins or ends with")));
}

Value starts_with(Interpreter&, const Value& self, Arguments& arguments) {
  return has_affix(self, arguments, [](const std::string& text, const std::string& affix) {
    return text.starts_with(affix);
  });
}

Value ends_with(Interpreter&, const Value& self, Arguments& arguments) {
  return has_affix(self, arguments, [](const std::string& text, const std::string& affix) {
    return text.ends_with(affix);
  });
}

Value replaced(Interpreter& at, const Value& self, Arguments& arguments) {
  // The filter of this name does the same.
  return apply_filter(at, "replace", self, arguments);
}

/// A position in bytes as one in characters.
Value position(const std::string& text, std::size_t at) {
  return at == text.npos ? Value(std::int64_t(-1))
                         : Value::count(character_count(std::string_view(text).substr(0, at)));
}

Value find(Interpreter&, const Value& self, Arguments& arguments) {
  return position(text_of(self), text_of(self).find(as_text(arguments.require("sub"), "sub")));
}

Value rfind(Interpreter&, const Value& self, Arguments& arguments) {
  return position(text_of(self), text_of(self).rfind(as_text(arguments.require("sub"), "sub")));
}

Value counted(Interpreter& at, const Value& self, Arguments& arguments) {
  const Value what = arguments.require("sub");
  if (const ListValue* list = self.list())
    return Value::count(
        std::size_t(std::count_if(list->items.begin(), list->items.end(), [&](const Value& item) {
          return equal(item, what, at.budget());
        })));
  const std::string& part = as_text(what, "what is counted");
  return Value::count(part.empty() ? character_count(text_of(self)) + 1
                                   : count(text_of(self), part));
}

Value index(Interpreter& at, const Value& self, Arguments& arguments) {
  const Value what = arguments.require("value");
  if (const std::string* text = self.text()) {
    const std::size_t found = text->find(as_text(what, "sub"));
    return found == text->npos ? throw Failure{ErrorCode::invalid_argument, "index finds nothing"}
                               : position(*text, found);
  }
  const List& items = self.list()->items;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], what, at.budget()))
      return Value::count(i);
  mistake("index finds nothing");
}

Value join(Interpreter& at, const Value& self, Arguments& arguments) {
  std::string out;
  bool first = true;
  for (const Value& part : items_of(arguments.require("iterable"), at.budget())) {
    out += first ? "" : text_of(self);
    out += as_text(part, "what is joined");
    at.budget().spend_text(out.size());
    first = false;
  }
  return Value(std::move(out));
}

template <std::string (*map)(std::string_view)>
Value mapped(Interpreter&, const Value& self, Arguments&) {
  return Value(map(text_of(self)));
}

Value without_prefix(Interpreter&, const Value& self, Arguments& arguments) {
  const std::string prefix = as_text(arguments.require("prefix"), "prefix");
  return text_of(self).starts_with(prefix) ? Value(text_of(self).substr(prefix.size())) : self;
}

Value without_suffix(Interpreter&, const Value& self, Arguments& arguments) {
  const std::string suffix = as_text(arguments.require("suffix"), "suffix");
  const std::string& text = text_of(self);
  return text.ends_with(suffix) ? Value(text.substr(0, text.size() - suffix.size())) : self;
}

Value all_digits(Interpreter&, const Value& self, Arguments&) {
  const std::string& text = text_of(self);
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80)
      unsupported("isdigit of a text that is not ASCII");
  return Value(!text.empty() && text.find_first_not_of("0123456789") == text.npos);
}

Value all_space(Interpreter&, const Value& self, Arguments&) {
  return Value(!text_of(self).empty() && strip(text_of(self), Side::left).empty());
}

Value get(Interpreter&, const Value& self, Arguments& arguments) {
  const Value key = arguments.require("key");
  const auto fallback = arguments.take("default");
  const Value* value = key.text() ? self.dict()->find(*key.text()) : nullptr;
  return value ? *value : fallback.value_or(Value(None{}));
}

template <bool with_keys, bool with_values>
Value members(Interpreter& at, const Value& self, Arguments&) {
  List out;
  at.budget().spend(self.dict()->members.size());
  for (const auto& [key, value] : self.dict()->members) {
    if (with_keys && with_values)
      out.push_back(Value::list({Value(key), value}, true));
    else
      out.push_back(with_keys ? Value(key) : value);
  }
  return Value::list(std::move(out));
}

Value cycle(Interpreter&, const Value& self, Arguments& arguments) {
  const List values = arguments.take_rest();
  if (values.empty())
    mistake("loop.cycle has nothing to choose from");
  return values[self.loop()->index % values.size()];
}

struct NamedMethod {
  std::string_view name;
  Method call; ///< Null: Python has it, but templates may not or hardly use it.
};

constexpr NamedMethod text_methods[] = {
    {"strip", stripped<Side::both>},
    {"lstrip", stripped<Side::left>},
    {"rstrip", stripped<Side::right>},
    {"split", split_text<false>},
    {"rsplit", split_text<true>},
    {"splitlines", lines},
    {"startswith", starts_with},
    {"endswith", ends_with},
    {"replace", replaced},
    {"find", find},
    {"rfind", rfind},
    {"index", index},
    {"count", counted},
    {"join", join},
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"title", mapped<title>},
    {"capitalize", mapped<capitalize>},
    {"removeprefix", without_prefix},
    {"removesuffix", without_suffix},
    {"isdigit", all_digits},
    {"isspace", all_space},
    {"casefold", nullptr},
    {"center", nullptr},
    {"encode", nullptr},
    {"expandtabs", nullptr},
    {"format", nullptr},
    {"format_map", nullptr},
    {"isalnum", nullptr},
    {"isalpha", nullptr},
    {"isascii", nullptr},
    {"isdecimal", nullptr},
    {"isidentifier", nullptr},
    {"islower", nullptr},
    {"isnumeric", nullptr},
    {"isprintable", nullptr},
    {"istitle", nullptr},
    {"isupper", nullptr},
    {"ljust", nullptr},
    {"maketrans", nullptr},
    {"partition", nullptr},
    {"rindex", nullptr},
    {"rjust", nullptr},
    {"rpartition", nullptr},
    {"swapcase", nullptr},
    {"translate", nullptr},
    {"zfill", nullptr},
};
constexpr NamedMethod list_methods[] = {
    {"count", counted},  {"index", index},     {"append", nullptr}, {"clear", nullptr},
    {"copy", nullptr},   {"extend", nullptr},  {"insert", nullptr}, {"pop", nullptr},
    {"remove", nullptr}, {"reverse", nullptr}, {"sort", nullptr},
};
constexpr NamedMethod dict_methods[] = {
    {"get", get},
    {"items", members<true, true>},
    {"keys", members<true, false>},
    {"values", members<false, true>},
    {"clear", nullptr},
    {"copy", nullptr},
    {"fromkeys", nullptr},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"setdefault", nullptr},
    {"update", nullptr},
};
constexpr NamedMethod loop_methods[] = {{"cycle", cycle}};

template <std::size_t n>
const NamedMethod* in(const NamedMethod (&methods)[n], std::string_view name) {
  const auto* end = methods + n;
  const auto* at = std::find_if(methods, end, [&](const NamedMethod& m) { return m.name == name; });
  return at == end ? nullptr : at;
}

const NamedMethod* find_method(const Value& self, std::string_view name) {
  if (self.text())
    return in(text_methods, name);
  if (self.list())
    return in(list_methods, name);
  if (self.dict())
    return in(dict_methods, name);
  return self.loop() ? in(loop_methods, name) : nullptr;
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
