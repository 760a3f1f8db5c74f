// Filters that make texts.
#include "text/chat_template/filters.hpp"
#include "text/chat_template/strings.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

/// Makes a text from another; the result is markup if that was.
Value like(const Value& subject, std::string text) {
  return subject.is_markup() ? Value::markup(std::move(text)) : Value(std::move(text));
}

Value trim(Interpreter& at, const Value& subject, Arguments& with) {
  const auto those = with.take("chars");
  const std::string text = text_of(at, subject);
  if (!those || those->none())
    return like(subject, std::string(strip(text, Side::both)));
  return like(subject, std::string(strip(text, Side::both, as_text(*those, "what is trimmed"))));
}

/// Returns the padding of a given width, or the text that is given in place of one.
std::string padding(Interpreter& at, const Value& width, const char* what) {
  if (width.text())
    return *width.text();
  const auto size = std::size_t(std::max<std::int64_t>(as_integer(width, what), 0));
  at.budget().spend_text(size);
  return std::string(size, ' ');
}

Value tojson(Interpreter& at, const Value& subject, Arguments& with) {
  const auto given = [&](std::string_view name) -> std::optional<Value> {
    auto value = with.take(name);
    return value && !value->none() ? value : std::nullopt;
  };
  JsonStyle style;
  style.ascii = truth(given("ensure_ascii").value_or(Value(false)));
  if (const auto indent = given("indent")) {
    style.indent = padding(at, *indent, "the indent of tojson");
    style.between_items = ",";
  }
  if (const auto separators = given("separators")) {
    const List both = items_of(*separators, at.budget());
    if (both.size() != 2)
      mistake("the separators of tojson are not two");
    style.between_items = as_text(both[0], "a separator of tojson");
    style.behind_key = as_text(both[1], "a separator of tojson");
  }
  style.sorted = truth(given("sort_keys").value_or(Value(false)));
  return Value(to_json(subject, style, at.budget()));
}

template <std::string (*map)(std::string_view)>
Value mapped_like(Interpreter& at, const Value& subject, Arguments&) {
  return like(subject, map(text_of(at, subject)));
}

/// Makes a title. Unlike in the method of that name, an apostrophe is part of a word.
Value title_filter(Interpreter& at, const Value& subject, Arguments&) {
  std::string out;
  bool begins = true;
  const std::string text = text_of(at, subject);
  for (const std::string_view c : characters(text)) {
    const bool between = strip(c, Side::left).empty() ||
                         (c.size() == 1 && std::string_view("-({[<").find(c) != c.npos);
    out += between ? std::string(c) : begins ? upper(c) : lower(c);
    begins = between;
  }
  return like(subject, std::move(out));
}

Value string(Interpreter& at, const Value& subject, Arguments&) {
  return like(subject, text_of(at, subject));
}

Value safe(Interpreter& at, const Value& subject, Arguments&) {
  return Value::markup(text_of(at, subject));
}

Value escape(Interpreter& at, const Value& subject, Arguments&) {
  const std::string text = text_of(at, subject);
  at.budget().spend_text(5 * text.size());
  return Value::markup(subject.is_markup() ? text : escaped(text));
}

Value escape_again(Interpreter& at, const Value& subject, Arguments&) {
  const std::string text = text_of(at, subject);
  at.budget().spend_text(5 * text.size());
  return Value::markup(escaped(text));
}

Value replace_filter(Interpreter& at, const Value& subject, Arguments& with) {
  const std::string from = text_of(at, with.require("old"));
  const std::string to = text_of(at, with.require("new"));
  const auto times = with.take("count");
  const std::string text = text_of(at, subject);
  return Value(replaced(text, from, to, times && !times->none() ? as_integer(*times, "count") : -1,
                        at.budget()));
}

Value indent(Interpreter& at, const Value& subject, Arguments& with) {
  const Value width = with.take("width").value_or(Value(std::int64_t(4)));
  const bool first_too = with.boolean("first", false);
  const bool blank_too = with.boolean("blank", false);
  const std::string pad = padding(at, width, "the width of indent");
  const std::string text = as_text(subject, "what is indented") + "\n";
  std::string out;
  bool first_line = true;
  for (const std::string_view line : split_lines(text)) {
    if (!first_line)
      out += '\n';
    if (first_line ? first_too : blank_too || !line.empty())
      out += pad;
    out += line;
    at.budget().spend_text(pad.size() + line.size());
    first_line = false;
  }
  return like(subject, std::move(out));
}

Value format_filter(Interpreter& at, const Value& subject, Arguments& with) {
  List positional = with.take_rest();
  Members named = with.take_named();
  if (!positional.empty() && !named.empty())
    mistake("the filter format takes values by position or by name, not both");
  const Value values =
      named.empty() ? Value::tuple(std::move(positional)) : Value::dict(std::move(named));
  return Value(percent_format(text_of(at, subject), values, at.budget()));
}

Value center(Interpreter& at, const Value& subject, Arguments& with) {
  const std::int64_t width = with.integer("width", 80);
  return like(subject, aligned(text_of(at, subject), 'c', width, " ", at.budget()));
}

/// Cuts a text that is too long, and drops a word that would be cut unless `killwords`.
Value truncate(Interpreter& at, const Value& subject, Arguments& with) {
  const std::int64_t longest = with.integer("length", 255);
  const bool cuts_words = with.boolean("killwords", false);
  const Value end = with.take("end").value_or(Value("..."));
  const auto given = with.take("leeway");
  const std::int64_t leeway = given && !given->none() ? as_integer(*given, "leeway") : 5;
  const auto kept = longest - std::int64_t(length(end));
  if (kept < 0 || leeway < 0)
    mistake("truncate is given a length that is too small");
  if (std::int64_t(length(subject)) <= longest + leeway)
    return subject;
  as_text(subject, "what is truncated");
  std::string text = *slice(subject, {}, kept, 1, at.budget()).text();
  if (const std::size_t blank = text.rfind(' '); !cuts_words && blank != text.npos)
    text.resize(blank);
  return Value(text + as_text(end, "the end of truncate"));
}

Value word_count(Interpreter& at, const Value& subject, Arguments&) {
  std::int64_t words = 0;
  bool within = false;
  const std::string text = text_of(at, subject);
  for (const std::string_view c : characters(text)) {
    const bool part = c == "_" || is_all(c, CharacterClass::alphanumeric);
    words += part && !within ? 1 : 0;
    within = part;
  }
  return Value(words);
}

std::string url_quoted(std::string_view text, bool in_query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                       std::string_view("_.-~").find(c) != std::string_view::npos;
    if (plain || (c == '/' && !in_query))
      out += c;
    else if (c == ' ' && in_query)
      out += '+';
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Value url_encode(Interpreter& at, const Value& subject, Arguments&) {
  if (subject.text() || !iterable(subject))
    return Value(url_quoted(text_of(at, subject), false));
  std::string out;
  const Pull next = iterate(subject, at.budget());
  while (const auto each = next()) {
    const List pair = subject.dict() ? List{*each, *subject.dict()->find(*each, at.budget())}
                                     : items_of(*each, at.budget());
    if (pair.size() != 2)
      mistake("urlencode is given what are not pairs");
    out += (out.empty() ? "" : "&") + url_quoted(text_of(at, pair[0]), true) + "=" +
           url_quoted(text_of(at, pair[1]), true);
    at.budget().spend_text(out.size());
  }
  return Value(std::move(out));
}

Value xml_attributes(Interpreter& at, const Value& subject, Arguments& with) {
  const bool space = with.boolean("autospace", true);
  if (!subject.dict())
    mistake(fmt::format("xmlattr is given a value of type {}", type_name(subject)));
  const auto escape_text = [&](const Value& value) {
    const std::string text = text_of(at, value);
    return value.is_markup() ? text : escaped(text);
  };
  std::string out;
  for (const auto& [key, value] : subject.dict()->entries) {
    if (value.none() || value.undefined())
      continue;
    const std::string& name = as_text(key, "the name of an attribute");
    const bool apart = split(name, {}, -1).size() == 1 && strip(name, Side::both) == name;
    if ((!name.empty() && !apart) || name.find_first_of("/>=") != name.npos)
      mistake(fmt::format("{} cannot name an attribute", quoted(name)));
    out += (out.empty() ? "" : " ") + escape_text(key) + "=\"" + escape_text(value) + "\"";
    at.budget().spend_text(out.size());
  }
  return Value((space && !out.empty() ? " " : "") + out);
}

constexpr Filter filters[] = {
    {"capitalize", mapped_like<capitalize>},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", escape_again},
    {"format", format_filter},
    {"indent", indent},
    {"lower", mapped_like<lower>},
    {"pprint", nullptr},
    {"replace", replace_filter},
    {"safe", safe},
    {"string", string},
    {"striptags", nullptr},
    {"title", title_filter},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", mapped_like<upper>},
    {"urlencode", url_encode},
    {"urlize", nullptr},
    {"wordcount", word_count},
    {"wordwrap", nullptr},
    {"xmlattr", xml_attributes},
};

} // namespace

const std::span<const Filter> text_filters(filters);

} // namespace paceline::text::jinja
