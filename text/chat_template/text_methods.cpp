// Methods of texts.
#include "text/chat_template/methods.hpp"
#include "text/chat_template/strings.hpp"
#include "text/tokenizer/unicode.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

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

Value lines(Interpreter&, const Value& self, Arguments& arguments) {
  const auto keeps = arguments.take("keepends");
  if (keeps && !keeps->boolean() && !keeps->integer())
    mistake(fmt::format("splitlines takes a boolean, not a {}", type_name(*keeps)));
  const bool with_ends = keeps && truth(*keeps);
  std::vector<std::string_view> parts = split_lines(text_of(self));
  for (std::size_t i = 0; with_ends && i < parts.size(); ++i) {
    const char* end =
        i + 1 < parts.size() ? parts[i + 1].data() : text_of(self).data() + text_of(self).size();
    parts[i] = {parts[i].data(), std::size_t(end - parts[i].data())};
  }
  return texts(parts);
}

/// The part of a text from `start` to `end`, and how many characters come before it; part_of
/// returns none if it would begin behind its end.
struct Part {
  std::string_view text;
  std::int64_t before = 0;
};
std::optional<Part> part_of(std::string_view text, Arguments& arguments) {
  const auto size = std::int64_t(character_count(text));
  const auto bound = [&](std::int64_t other) {
    const auto given = arguments.take("");
    const std::int64_t at = given && !given->none() ? as_integer(*given, "a bound") : other;
    return at < 0 ? std::max<std::int64_t>(at + size, 0) : at;
  };
  const std::int64_t begin = bound(0);
  const std::int64_t end = std::min(bound(size), size);
  if (begin > end)
    return {};
  const auto bytes = [&](std::int64_t characters) {
    std::size_t at = 0;
    for (; characters > 0; --characters)
      at += first_character(text.substr(at)).size;
    return at;
  };
  const std::size_t first = bytes(begin);
  return Part{text.substr(first, bytes(end) - first), begin};
}

/// Tests a text, or a tuple of which one text is enough.
template <class Test>
Value has_affix(const Value& self, Arguments& arguments, Test test) {
  const Value affix = arguments.require("affix");
  const auto part = part_of(text_of(self), arguments);
  const auto holds = [&](const Value& one) {
    const std::string& text = as_text(one, "what a text begins or ends with");
    return part && test(part->text, text);
  };
  if (affix.is_tuple())
    return Value(std::any_of(affix.list()->items.begin(), affix.list()->items.end(), holds));
  return Value(holds(affix));
}

Value starts_with(Interpreter&, const Value& self, Arguments& arguments) {
  return has_affix(self, arguments, [](std::string_view text, std::string_view affix) {
    return text.starts_with(affix);
  });
}

Value ends_with(Interpreter&, const Value& self, Arguments& arguments) {
  return has_affix(self, arguments, [](std::string_view text, std::string_view affix) {
    return text.ends_with(affix);
  });
}

Value replace_parts(Interpreter& at, const Value& self, Arguments& arguments) {
  const Value from = arguments.require("old");
  const Value to = arguments.require("new");
  return Value(replaced(text_of(self), as_text(from, "what is replaced"),
                        as_text(to, "what replaces"), arguments.integer("", -1), at.budget()));
}

/// Returns the place where a text is found, in characters; -1: it is not found.
template <bool from_right>
std::int64_t found(const Value& self, Arguments& arguments) {
  const Value what = arguments.require("sub");
  const std::string& sub = as_text(what, "what is looked for");
  const auto part = part_of(text_of(self), arguments);
  const std::size_t at = !part        ? std::string_view::npos
                         : from_right ? part->text.rfind(sub)
                                      : part->text.find(sub);
  return at == std::string_view::npos
             ? -1
             : part->before + std::int64_t(character_count(part->text.substr(0, at)));
}

template <bool from_right>
Value find(Interpreter&, const Value& self, Arguments& arguments) {
  return Value(found<from_right>(self, arguments));
}

template <bool from_right>
Value index(Interpreter&, const Value& self, Arguments& arguments) {
  const std::int64_t at = found<from_right>(self, arguments);
  if (at < 0)
    mistake("index finds nothing");
  return Value(at);
}

Value counted(Interpreter&, const Value& self, Arguments& arguments) {
  const Value what = arguments.require("sub");
  const std::string& sub = as_text(what, "what is counted");
  const auto part = part_of(text_of(self), arguments);
  if (!part)
    return Value(std::int64_t(0));
  return Value::count(sub.empty() ? character_count(part->text) + 1 : count(part->text, sub));
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

template <CharacterClass what>
Value all_are(Interpreter&, const Value& self, Arguments&) {
  return Value(!text_of(self).empty() && is_all(text_of(self), what));
}

template <bool (*holds)(std::string_view)>
Value asked(Interpreter&, const Value& self, Arguments&) {
  return Value(holds(text_of(self)));
}

bool is_identifier(std::string_view text) {
  const auto parts = split(text, "_", -1);
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           return is_all(part, CharacterClass::alphanumeric);
         });
}

bool is_printable(std::string_view text) {
  return is_all(text, CharacterClass::printable);
}

bool all_space(std::string_view text) {
  return !text.empty() && strip(text, Side::left).empty();
}

template <char how>
Value justified(Interpreter& at, const Value& self, Arguments& arguments) {
  const std::int64_t width = as_integer(arguments.require("width"), "a width");
  const Value given = arguments.take("").value_or(Value(" "));
  const std::string& filling = as_text(given, "what fills a text");
  if (character_count(filling) != 1)
    mistake("what fills a text is not one character");
  return Value(aligned(text_of(self), how, width, filling, at.budget()));
}

Value zero_filled(Interpreter& at, const Value& self, Arguments& arguments) {
  const std::int64_t width = as_integer(arguments.require("width"), "a width");
  const bool blank = text_of(self).starts_with(' '); // a blank is not a sign here
  return Value(aligned(text_of(self), blank ? '>' : '=', width, "0", at.budget()));
}

template <bool from_right>
Value parted(Interpreter&, const Value& self, Arguments& arguments) {
  const Value given = arguments.require("sep");
  const std::string& sep = as_text(given, "a separator");
  if (sep.empty())
    mistake("partition has an empty separator");
  const std::string& text = text_of(self);
  const std::size_t at = from_right ? text.rfind(sep) : text.find(sep);
  if (at == text.npos)
    return from_right ? Value::tuple({Value(""), Value(""), self})
                      : Value::tuple({self, Value(""), Value("")});
  return Value::tuple({Value(text.substr(0, at)), Value(sep), Value(text.substr(at + sep.size()))});
}

Value expanded_tabs(Interpreter& at, const Value& self, Arguments& arguments) {
  const std::int64_t size = arguments.integer("tabsize", 8);
  std::string out;
  std::int64_t column = 0;
  for (const std::string_view c : characters(text_of(self))) {
    if (c == "\t") {
      const std::int64_t blanks = size > 0 ? size - column % size : 0;
      at.budget().spend_text(out.size() + std::size_t(blanks));
      out.append(std::size_t(blanks), ' ');
      column += blanks;
    } else {
      out += c;
      column = c == "\n" || c == "\r" ? 0 : column + 1;
    }
  }
  return Value(std::move(out));
}

Value format(Interpreter& at, const Value& self, Arguments& arguments) {
  const List positional = arguments.take_rest();
  const Members named = arguments.take_named();
  return Value(brace_format(text_of(self), positional, named, at.budget()));
}

Value format_map(Interpreter& at, const Value& self, Arguments& arguments) {
  const Value from = arguments.require("mapping");
  if (!from.dict())
    mistake(fmt::format("format_map is given a value of type {}", type_name(from)));
  Members named;
  for (const auto& [key, value] : from.dict()->entries)
    if (key.text())
      named.emplace_back(*key.text(), value);
  return Value(brace_format(text_of(self), {}, named, at.budget()));
}

constexpr NamedMethod methods[] = {
    {"capitalize", mapped<capitalize>},
    {"casefold", mapped<fold_case>},
    {"center", justified<'c'>},
    {"count", counted},
    {"encode", nullptr},
    {"endswith", ends_with},
    {"expandtabs", expanded_tabs},
    {"find", find<false>},
    {"format", format},
    {"format_map", format_map},
    {"index", index<false>},
    {"isalnum", all_are<CharacterClass::alphanumeric>},
    {"isalpha", all_are<CharacterClass::alphabetic>},
    {"isascii", asked<is_ascii>},
    {"isdecimal", all_are<CharacterClass::decimal>},
    {"isdigit", all_are<CharacterClass::digit>},
    {"isidentifier", asked<is_identifier>},
    {"islower", asked<is_lower>},
    {"isnumeric", all_are<CharacterClass::numeric>},
    {"isprintable", asked<is_printable>},
    {"isspace", asked<all_space>},
    {"istitle", asked<is_title>},
    {"isupper", asked<is_upper>},
    {"join", join},
    {"ljust", justified<'<'>},
    {"lower", mapped<lower>},
    {"lstrip", stripped<Side::left>},
    {"maketrans", nullptr},
    {"partition", parted<false>},
    {"removeprefix", without_prefix},
    {"removesuffix", without_suffix},
    {"replace", replace_parts},
    {"rfind", find<true>},
    {"rindex", index<true>},
    {"rjust", justified<'>'>},
    {"rpartition", parted<true>},
    {"rsplit", split_text<true>},
    {"rstrip", stripped<Side::right>},
    {"split", split_text<false>},
    {"splitlines", lines},
    {"startswith", starts_with},
    {"strip", stripped<Side::both>},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<title>},
    {"translate", nullptr},
    {"upper", mapped<upper>},
    {"zfill", zero_filled},
};

} // namespace

const std::span<const NamedMethod> text_methods(methods);

} // namespace paceline::text::jinja
