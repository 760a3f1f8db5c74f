// Filters over values that have items.
#include "text/chat_template/filters.hpp"
#include "text/chat_template/strings.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

/// Splits "a.0.b" into its steps, as map and similar filters do.
List path_of(const Value& path) {
  if (path.none())
    return {};
  if (!path.text())
    return {path};
  List out;
  for (const std::string_view name : split(*path.text(), ".", -1)) {
    std::int64_t number = 0;
    const bool whole =
        !name.empty() && name.find_first_not_of("0123456789") == name.npos &&
        std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc{};
    out.push_back(whole ? Value(number) : Value(name));
  }
  return out;
}

/// Follows a path. `other`, unless it is none, replaces what is undefined after a step.
Value follow_path(Interpreter& at, Value value, const List& path, const Value& other) {
  for (const Value& step : path) {
    value = item(value, step, at.budget());
    if (value.undefined() && !other.none())
      value = other;
  }
  return value;
}

/// The key by which values are compared: a member's value, without regard to case unless `exact`.
struct Key {
  List path;
  bool exact = false;
  Value other = Value(None{});

  Value plain(Interpreter& at, const Value& value) const {
    return follow_path(at, value, path, other);
  }
  Value of(Interpreter& at, const Value& value) const {
    const Value by = plain(at, value);
    return by.text() && !exact ? Value(lower(*by.text())) : by;
  }
};

Value size(Interpreter&, const Value& subject, Arguments&) {
  return Value::count(length(subject));
}

Value fallback(Interpreter&, const Value& subject, Arguments& with) {
  const Value other = with.take("default_value").value_or(Value(""));
  const auto falsy = with.take("boolean");
  const bool absent = subject.undefined() || (falsy && truth(*falsy) && !truth(subject));
  return absent ? other : subject;
}

Value join(Interpreter& at, const Value& subject, Arguments& with) {
  const auto given = with.take("d");
  const std::string separator = given ? text_of(at, *given) : std::string();
  const List path = path_of(with.take("attribute").value_or(Value(None{})));
  std::string out;
  bool first = true;
  const Pull next = iterate(subject, at.budget());
  while (const auto each = next()) {
    out += first ? "" : separator;
    out += text_of(at, follow_path(at, *each, path, Value(None{})));
    at.budget().spend_text(out.size());
    first = false;
  }
  return Value(std::move(out));
}

Value first(Interpreter& at, const Value& subject, Arguments&) {
  return iterate(subject, at.budget())().value_or(
      Value(Undefined{"what is empty has no first item"}));
}

Value last(Interpreter& at, const Value& subject, Arguments&) {
  if (subject.iterator())
    mistake(fmt::format("a value of type {} has no end to begin at", type_name(subject)));
  List items = items_of(subject, at.budget());
  return items.empty() ? Value(Undefined{"what is empty has no last item"}) : items.back();
}

Value list(Interpreter& at, const Value& subject, Arguments&) {
  return Value::list(items_of(subject, at.budget()));
}

/// Returns an iterator over the items.
Value lazily(Interpreter& at, List items, const char* type) {
  return at.make_iterator(iterate(Value::list(std::move(items)), at.budget()), type);
}

Value items(Interpreter& at, const Value& subject, Arguments&) {
  if (!subject.undefined() && !subject.dict())
    mistake(fmt::format("the filter items is given a value of type {}", type_name(subject)));
  List pairs;
  if (const DictValue* dict = subject.dict())
    for (const auto& [key, value] : dict->entries)
      pairs.push_back(Value::tuple({key, value}));
  at.budget().spend(3 * pairs.size());
  return lazily(at, std::move(pairs), "generator");
}

/// Implements map, which gives nothing for none, an empty value or an undefined one.
Value map(Interpreter& at, const Value& subject, Arguments& with) {
  const List positional = with.take_rest();
  Members named = with.take_named();
  if (!truth(subject))
    return lazily(at, {}, "generator");
  std::function<Value(const Value&)> change;
  Arguments attributes("map", {}, named);
  if (auto attribute = attributes.take("attribute"); attribute && positional.empty()) {
    const Value other = attributes.take("default").value_or(Value(None{}));
    attributes.finish();
    change = [&at, path = path_of(*attribute), other](const Value& each) {
      return follow_path(at, each, path, other);
    };
  } else {
    change = [&at, positional, named](const Value& each) {
      if (positional.empty())
        mistake("map lacks the name of a filter");
      const std::string& name = as_text(positional[0], "a filter's name");
      Arguments inner("the filter " + name, List(positional.begin() + 1, positional.end()), named);
      return apply_filter(at, name, each, inner);
    };
  }
  return at.make_iterator([change, all = iterate(subject, at.budget())]() -> std::optional<Value> {
    const auto each = all();
    return each ? std::optional(change(*each)) : std::nullopt;
  });
}

/// Gives the items for which a test, of the item or `by_attribute` of a member, is `wanted`.
template <bool wanted, bool by_attribute>
Value chosen(Interpreter& at, const Value& subject, Arguments& with) {
  List positional = with.take_rest();
  const Members named = with.take_named();
  if (!truth(subject))
    return lazily(at, {}, "generator");
  if (by_attribute && positional.empty())
    return at.make_iterator(
        []() -> std::optional<Value> { mistake("an attribute's name is lacking"); });
  const List path = by_attribute ? path_of(positional[0]) : List();
  positional.erase(positional.begin(), positional.begin() + (by_attribute ? 1 : 0));
  const auto holds = [&at, path, positional, named](const Value& each) {
    const Value tested = follow_path(at, each, path, Value(None{}));
    if (positional.empty())
      return truth(tested);
    const std::string& name = as_text(positional[0], "a test's name");
    Arguments inner("the test " + name, List(positional.begin() + 1, positional.end()), named);
    return apply_test(at, name, tested, inner);
  };
  return at.make_iterator([holds, all = iterate(subject, at.budget())]() -> std::optional<Value> {
    while (auto each = all())
      if (holds(*each) == wanted)
        return each;
    return {};
  });
}

Value reversed(Interpreter& at, const Value& subject, Arguments&) {
  if (subject.text())
    return slice(subject, {}, {}, -1, at.budget());
  List items = items_of(subject, at.budget());
  std::reverse(items.begin(), items.end());
  return subject.iterator() ? Value::list(std::move(items))
                            : lazily(at, std::move(items), "reversed");
}

Value unique(Interpreter& at, const Value& subject, Arguments& with) {
  Key key;
  key.exact = with.boolean("case_sensitive", false);
  key.path = path_of(with.take("attribute").value_or(Value(None{})));
  auto fresh = [&at, key, seen = Entries()](const Value& each) mutable {
    const std::size_t known = seen.size();
    set_entry(seen, key.of(at, each), Value(None{}), at.budget());
    return seen.size() > known;
  };
  return at.make_iterator(
      [fresh, all = iterate(subject, at.budget())]() mutable -> std::optional<Value> {
        while (auto each = all())
          if (fresh(*each))
            return each;
        return {};
      });
}

/// Sorts items by `keys`, in order of their importance.
void sort_by(Interpreter& at, List& items, const std::vector<Key>& keys, bool backwards) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& each : items) {
    List by;
    for (const Key& key : keys)
      by.push_back(key.of(at, each));
    Value whole = Value::list(std::move(by));
    keyed.emplace_back(std::move(whole), std::move(each));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return backwards ? less(b.first, a.first, at.budget()) : less(a.first, b.first, at.budget());
  });
  std::transform(keyed.begin(), keyed.end(), items.begin(),
                 [](auto& pair) { return std::move(pair.second); });
}

Value sorted(Interpreter& at, const Value& subject, Arguments& with) {
  const bool backwards = with.boolean("reverse", false);
  const bool exact = with.boolean("case_sensitive", false);
  const Value attribute = with.take("attribute").value_or(Value(None{}));
  std::vector<Key> keys;
  if (const std::string* several = attribute.text())
    for (const std::string_view one : split(*several, ",", -1))
      keys.push_back({path_of(Value(one)), exact});
  else
    keys.push_back({path_of(attribute), exact});
  List items = items_of(subject, at.budget());
  sort_by(at, items, keys, backwards);
  return Value::list(std::move(items));
}

Value sorted_dict(Interpreter& at, const Value& subject, Arguments& with) {
  const bool exact = with.boolean("case_sensitive", false);
  const Value by = with.take("by").value_or(Value("key"));
  const bool backwards = with.boolean("reverse", false);
  const std::string* what = by.text();
  if (!what || (*what != "key" && *what != "value"))
    mistake("a dict is sorted by key or value");
  if (!subject.dict())
    mistake(fmt::format("the filter dictsort is given a value of type {}", type_name(subject)));
  List pairs;
  for (const auto& [key, value] : subject.dict()->entries)
    pairs.push_back(Value::tuple({key, value}));
  sort_by(at, pairs, {{{Value(std::int64_t(*what == "key" ? 0 : 1))}, exact}}, backwards);
  return Value::list(std::move(pairs));
}

template <bool greatest>
Value extreme(Interpreter& at, const Value& subject, Arguments& with) {
  Key key;
  key.exact = with.boolean("case_sensitive", false);
  key.path = path_of(with.take("attribute").value_or(Value(None{})));
  const Pull next = iterate(subject, at.budget());
  auto best = next();
  if (!best)
    return Value(Undefined{"what is empty has neither a smallest nor a largest item"});
  Value best_key = key.of(at, *best);
  while (auto each = next()) {
    Value own = key.of(at, *each);
    if (greatest ? less(best_key, own, at.budget()) : less(own, best_key, at.budget())) {
      best = std::move(each);
      best_key = std::move(own);
    }
  }
  return *best;
}

Value sum(Interpreter& at, const Value& subject, Arguments& with) {
  const List path = path_of(with.take("attribute").value_or(Value(None{})));
  Value out = with.take("start").value_or(Value(std::int64_t(0)));
  if (out.text())
    mistake("texts are joined, not summed");
  const Pull next = iterate(subject, at.budget());
  while (const auto each = next())
    out = arithmetic("+", out, follow_path(at, *each, path, Value(None{})), at.budget());
  return out;
}

/// Groups the items that share a member's value, in the values' order.
Value grouped(Interpreter& at, const Value& subject, Arguments& with) {
  Key key;
  key.path = path_of(with.require("attribute"));
  key.other = with.take("default").value_or(Value(None{}));
  key.exact = with.boolean("case_sensitive", false);
  List items = items_of(subject, at.budget());
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    return less(key.of(at, a), key.of(at, b), at.budget());
  });
  List groups;
  for (std::size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    const Value of = key.of(at, items[begin]);
    while (end < items.size() && equal(key.of(at, items[end]), of, at.budget()))
      ++end;
    end = std::max(end, begin + 1);
    List group(items.begin() + std::ptrdiff_t(begin), items.begin() + std::ptrdiff_t(end));
    ListValue pair{{key.plain(at, items[begin]), Value::list(std::move(group))},
                   ListValue::Kind::tuple};
    pair.names = {"grouper", "list"};
    groups.emplace_back(std::move(pair));
  }
  return Value::list(std::move(groups));
}

Value batch(Interpreter& at, const Value& subject, Arguments& with) {
  const std::int64_t size = as_integer(with.require("linecount"), "the size of a batch");
  const Value filler = with.take("fill_with").value_or(Value(None{}));
  List batches;
  List batch;
  for (Value& each : items_of(subject, at.budget())) {
    if (std::int64_t(batch.size()) == size)
      batches.push_back(Value::list(std::exchange(batch, {})));
    batch.push_back(std::move(each));
  }
  if (!batch.empty()) {
    const auto lacking = std::max<std::int64_t>(size - std::int64_t(batch.size()), 0);
    if (!filler.none()) {
      at.budget().spend(std::size_t(lacking));
      batch.insert(batch.end(), std::size_t(lacking), filler);
    }
    batches.push_back(Value::list(std::move(batch)));
  }
  return lazily(at, std::move(batches), "generator");
}

Value slices(Interpreter& at, const Value& subject, Arguments& with) {
  const std::int64_t count = as_integer(with.require("slices"), "a number of slices");
  const Value filler = with.take("fill_with").value_or(Value(None{}));
  const List items = items_of(subject, at.budget());
  if (count == 0)
    mistake("a division by zero");
  const auto size = std::int64_t(items.size());
  List out;
  auto next = items.begin();
  for (std::int64_t i = 0; i < count; ++i) {
    at.budget().spend(16); // each turn makes a list, which may be empty
    const bool longer = i < size % count;
    const auto end = next + size / count + (longer ? 1 : 0);
    List slice(next, end);
    next = end;
    if (!filler.none() && !longer)
      slice.push_back(filler);
    out.push_back(Value::list(std::move(slice)));
  }
  return lazily(at, std::move(out), "generator");
}

Value member_of(Interpreter& at, const Value& subject, Arguments& with) {
  const Value name = with.require("name");
  return attribute(subject, text_of(at, name))
      .value_or(Value(Undefined{fmt::format("there is no member {}", text_of(at, name))}));
}

constexpr Filter filters[] = {
    {"attr", member_of},
    {"batch", batch},
    {"count", size},
    {"d", fallback},
    {"default", fallback},
    {"dictsort", sorted_dict},
    {"first", first},
    {"groupby", grouped},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", size},
    {"list", list},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"random", nullptr},
    {"reject", chosen<false, false>},
    {"rejectattr", chosen<false, true>},
    {"reverse", reversed},
    {"select", chosen<true, false>},
    {"selectattr", chosen<true, true>},
    {"slice", slices},
    {"sort", sorted},
    {"sum", sum},
    {"unique", unique},
};

} // namespace

const std::span<const Filter> item_filters(filters);

} // namespace paceline::text::jinja
