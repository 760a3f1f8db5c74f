// The functions that templates may call by name.
#include "text/chat_template/interpreter.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

Value range(Interpreter& at, Arguments& arguments) {
  std::int64_t begin = as_integer(arguments.require("stop"), "a bound of range");
  std::int64_t end = begin;
  if (const auto second = arguments.take("stop"))
    end = as_integer(*second, "a bound of range");
  else
    begin = 0;
  const auto third = arguments.take("step");
  const std::int64_t step = third ? as_integer(*third, "the step of range") : 1;
  arguments.finish();
  if (step == 0)
    mistake("the step of range is zero");
  List items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    at.budget().spend();
    if (items.size() == limits::template_range_max)
      mistake(fmt::format("a range has more than {} items", limits::template_range_max));
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i))
      break;
  }
  return Value(ListValue{std::move(items), ListValue::Kind::range, Range{begin, end, step}});
}

/// Makes the entries of dict(...): those of a dict or of pairs, and those given by name.
Entries entries_of(Interpreter& at, Arguments& arguments) {
  Entries out;
  if (const auto from = arguments.has_rest() ? arguments.take("") : std::nullopt) {
    if (from->undefined())
      mistake("what a dict is made of is not there");
    if (const Namespace* space = from->space())
      unsupported(
          fmt::format("a dict of a {} of {} members", type_name(*from), space->members.size()));
    const Pull next = iterate(*from, at.budget());
    while (const auto item = next()) {
      const List pair = from->dict() ? List{*item, *from->dict()->find(*item, at.budget())}
                                     : items_of(*item, at.budget());
      if (pair.size() != 2)
        mistake("what a dict is made of are not pairs");
      set_entry(out, pair[0], pair[1], at.budget());
    }
  }
  for (auto& [name, value] : arguments.take_named())
    set_entry(out, Value(name), std::move(value), at.budget());
  arguments.finish();
  return out;
}

Value make_namespace(Interpreter& at, Arguments& arguments) {
  Members members;
  for (auto& [name, value] : entries_of(at, arguments))
    members.emplace_back(as_text(name, "the name of a member"), std::move(value));
  return at.make_namespace(std::move(members));
}

Value make_dict(Interpreter& at, Arguments& arguments) {
  return Value::dict_of(entries_of(at, arguments));
}

Value make_cycler(Interpreter& at, Arguments& arguments) {
  List items = arguments.take_rest();
  arguments.finish();
  if (items.empty())
    mistake("a cycler has nothing to choose from");
  return at.make_counter(Counter::Kind::cycler, std::move(items));
}

Value make_joiner(Interpreter& at, Arguments& arguments) {
  const Value between = arguments.take("sep").value_or(Value(", "));
  arguments.finish();
  return at.make_counter(Counter::Kind::joiner, {between});
}

Value raise_exception(Interpreter& at, Arguments& arguments) {
  const std::string text = to_text(arguments.require("message"), at.budget());
  arguments.finish();
  mistake("the template refuses this conversation: " + text);
}

Value strftime_now(Interpreter& at, Arguments& arguments) {
  const Value format = arguments.require("format");
  arguments.finish();
  const std::string& wanted = as_text(format, "the format of strftime_now");
  if (wanted.empty())
    return Value("");
  std::array<char, 512> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), wanted.c_str(), &at.now());
  if (size == 0)
    unsupported("a format of strftime_now that is so long");
  return Value(std::string(text.data(), size));
}

struct Function {
  std::string_view name;
  Value (*call)(Interpreter&, Arguments&);
};
constexpr Function functions[] = {{"range", range},
                                  {"namespace", make_namespace},
                                  {"dict", make_dict},
                                  {"cycler", make_cycler},
                                  {"joiner", make_joiner},
                                  {"lipsum", nullptr},
                                  {"raise_exception", raise_exception},
                                  {"strftime_now", strftime_now}};

} // namespace

std::optional<Value> global_function(std::string_view name) {
  for (const Function& function : functions)
    if (function.name == name)
      return Value(Callable{std::string(name), Value()});
  return {};
}

Value call_function(Interpreter& at, const std::string& name, Arguments& arguments) {
  for (const Function& function : functions)
    if (function.name == name && function.call)
      return function.call(at, arguments);
  unsupported(fmt::format("the function '{}'", name));
}

} // namespace paceline::text::jinja
