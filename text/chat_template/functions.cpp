// What templates may call by name.
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
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i))
      break;
  }
  return Value::list(std::move(items));
}

Members named_members(Interpreter& at, Arguments& arguments) {
  Members members;
  if (const auto from = arguments.take("")) {
    const DictValue* dict = from->dict();
    if (!dict)
      unsupported("making members from something other than a dict");
    at.budget().spend(dict->members.size());
    members = dict->members;
  }
  for (auto& named : arguments.take_named()) {
    const auto same = [&](const auto& member) { return member.first == named.first; };
    members.erase(std::remove_if(members.begin(), members.end(), same), members.end());
    members.push_back(std::move(named));
  }
  arguments.finish();
  return members;
}

Value make_namespace(Interpreter& at, Arguments& arguments) {
  return Value(at.make_namespace(named_members(at, arguments)));
}

Value make_dict(Interpreter& at, Arguments& arguments) {
  return Value::dict(named_members(at, arguments));
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
                                  {"raise_exception", raise_exception},
                                  {"strftime_now", strftime_now}};

} // namespace

std::optional<Value> global_function(std::string_view name) {
  for (const Function& function : functions)
    if (function.name == name)
      return Value(Callable{std::string(name), Value()});
  for (const std::string_view known : {"lipsum", "cycler", "joiner"})
    if (name == known)
      unsupported(fmt::format("the function '{}'", name));
  return {};
}

Value call_function(Interpreter& at, const std::string& name, Arguments& arguments) {
  for (const Function& function : functions)
    if (function.name == name)
      return function.call(at, arguments);
  unsupported(fmt::format("the function '{}'", name));
}

} // namespace paceline::text::jinja
