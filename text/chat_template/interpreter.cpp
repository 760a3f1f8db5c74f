#include "text/chat_template/interpreter.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {

std::optional<Value> Arguments::take(std::string_view name) {
  if (next_ < positional_.size())
    return positional_[next_++];
  const auto at = std::find_if(named_.begin(), named_.end(),
                               [&](const auto& argument) { return argument.first == name; });
  if (at == named_.end())
    return {};
  Value value = std::move(at->second);
  named_.erase(at);
  return value;
}

Value Arguments::require(std::string_view name) {
  if (auto value = take(name))
    return *std::move(value);
  mistake(fmt::format("{} lacks its argument '{}'", of_, name));
}

List Arguments::take_rest() {
  List rest(positional_.begin() + std::ptrdiff_t(next_), positional_.end());
  next_ = positional_.size();
  return rest;
}

void Arguments::finish() const {
  if (!named_.empty())
    unsupported(fmt::format("the argument '{}' of {}", named_.front().first, of_));
  if (next_ < positional_.size())
    unsupported(fmt::format("{} with {} arguments", of_, positional_.size()));
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [known, old] : own_)
    if (known == name) {
      old = std::move(value);
      return;
    }
  own_.emplace_back(name, std::move(value));
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->around_)
    for (const auto& [known, value] : scope->own_)
      if (known == name)
        return &value;
  return nullptr;
}

namespace {

/// Counts how deep blocks and expressions are followed, macros within macros too.
class Descent {
public:
  explicit Descent(int& depth) : depth_(depth) {
    if (depth >= limits::template_depth_max)
      mistake("the template goes too deep");
    ++depth;
  }
  ~Descent() { --depth_; }
  Descent(const Descent&) = delete;
  Descent& operator=(const Descent&) = delete;

private:
  int& depth_;
};

} // namespace

std::string Interpreter::run(const Template& followed, Members&& globals) {
  for (auto& [name, value] : globals)
    globals_.set(name, std::move(value));
  follow(followed.body, globals_);
  return std::move(out_);
}

Namespace* Interpreter::make_namespace(Members&& members) {
  budget_.spend(16 + members.size());
  Namespace& made = namespaces_.emplace_back();
  for (auto& [name, value] : members)
    made.insert_or_assign(name, std::move(value));
  return &made;
}

Interpreter::Flow Interpreter::follow(const Body& body, Scope& scope) {
  const Descent descent(depth_);
  for (const Statement& statement : body)
    if (const Flow flow = follow(statement, scope); flow != Flow::on)
      return flow;
  return Flow::on;
}

Interpreter::Flow Interpreter::follow(const Statement& s, Scope& scope) {
  line_ = s.line;
  budget_.spend();
  switch (s.kind) {
  case Statement::Kind::text: print(s.text); break;
  case Statement::Kind::print: print(to_text(evaluate(*s.value, scope), budget_)); break;
  case Statement::Kind::choice: return follow_choice(s, scope);
  case Statement::Kind::loop: return follow_loop(s, scope);
  case Statement::Kind::set: assign(s.target, evaluate(*s.value, scope), scope); break;
  case Statement::Kind::capture: capture(s, scope); break;
  case Statement::Kind::macro: scope.set(s.text, Value(Callable{s.text, Value(), &s})); break;
  case Statement::Kind::block: {
    Scope inner(&scope);
    return follow(s.body, inner);
  }
  case Statement::Kind::leave: return Flow::leave;
  case Statement::Kind::next: return Flow::next;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::follow_choice(const Statement& s, Scope& scope) {
  for (const Statement::Branch& branch : s.branches)
    if (!branch.condition || truth(evaluate(*branch.condition, scope)))
      return follow(branch.body, scope);
  return Flow::on;
}

List Interpreter::loop_items(const Statement& s, const Scope& scope) {
  List items = items_of(evaluate(*s.value, scope), budget_);
  if (!s.condition)
    return items;
  List chosen;
  for (Value& item : items) {
    Scope inner(&scope);
    assign(s.target, item, inner);
    if (truth(evaluate(*s.condition, inner)))
      chosen.push_back(std::move(item));
  }
  return chosen;
}

Interpreter::Flow Interpreter::follow_loop(const Statement& s, Scope& scope) {
  const Value items = Value::list(loop_items(s, scope));
  const std::size_t count = length(items);
  for (std::size_t i = 0; i < count; ++i) {
    budget_.spend();
    Scope turn(&scope);
    assign(s.target, items.list()->items[i], turn);
    turn.set("loop", Value(LoopValue{items, i}));
    if (follow(s.body, turn) == Flow::leave)
      return Flow::on;
  }
  if (count == 0) {
    Scope inner(&scope);
    return follow(s.otherwise, inner);
  }
  return Flow::on;
}

void Interpreter::capture(const Statement& s, Scope& scope) {
  Scope inner(&scope);
  Value value(printed(s.body, inner));
  if (s.value) {
    inner.set("", std::move(value)); // the filters' subject
    value = evaluate(*s.value, inner);
  }
  assign(s.target, value, scope);
}

std::string Interpreter::printed(const Body& body, Scope& scope) {
  std::string around = std::exchange(out_, {});
  follow(body, scope);
  return std::exchange(out_, std::move(around));
}

void Interpreter::print(std::string_view text) {
  budget_.spend_text(text.size());
  if (out_.size() + text.size() > limits::template_text_bytes_max)
    mistake("the template makes a text that is too long");
  out_ += text;
}

void Interpreter::assign(const Target& target, const Value& value, Scope& scope) {
  if (!target.member.empty()) {
    const Value* of = scope.find(target.names[0]);
    Namespace* space = of ? of->space() : nullptr;
    if (!space)
      mistake(fmt::format("'{}' is no namespace, so its members cannot be set", target.names[0]));
    space->insert_or_assign(target.member, value);
    return;
  }
  if (!target.several)
    return scope.set(target.names[0], value);
  List items = items_of(value, budget_);
  if (items.size() != target.names.size())
    mistake(fmt::format("{} values are assigned to {} names", items.size(), target.names.size()));
  for (std::size_t i = 0; i < items.size(); ++i)
    scope.set(target.names[i], std::move(items[i]));
}

Value Interpreter::evaluate(const Expression& e, const Scope& scope) {
  using Kind = Expression::Kind;
  const Descent descent(depth_);
  budget_.spend();
  line_ = e.line;
  switch (e.kind) {
  case Kind::constant: return e.value;
  case Kind::name: {
    if (const Value* value = scope.find(e.text))
      return *value;
    return global_function(e.text).value_or(
        Value(Undefined{fmt::format("'{}' is undefined", e.text)}));
  }
  case Kind::list:
  case Kind::tuple: return evaluate_list(e, scope);
  case Kind::dict: return evaluate_dict(e, scope);
  case Kind::member: return member(part(e, 0, scope), e.text, budget_);
  case Kind::item: {
    const Value of = part(e, 0, scope);
    return item(of, part(e, 1, scope), budget_);
  }
  case Kind::slice: return evaluate_slice(e, scope);
  case Kind::call: {
    const Value callee = part(e, 0, scope);
    const std::string name = callee.callable() ? callee.callable()->name : std::string();
    return call(callee, arguments(e, name, scope));
  }
  case Kind::filter: {
    const Value subject = part(e, 0, scope);
    Arguments with = arguments(e, "the filter " + e.text, scope);
    return apply_filter(*this, e.text, subject, with);
  }
  case Kind::test: {
    const Value subject = part(e, 0, scope);
    Arguments with = arguments(e, "the test " + e.text, scope);
    return Value(apply_test(*this, e.text, subject, with));
  }
  case Kind::negation: return Value(!truth(part(e, 0, scope)));
  case Kind::sign: return arithmetic(e.text, Value(std::int64_t(0)), part(e, 0, scope), budget_);
  case Kind::arithmetic: {
    const Value left = part(e, 0, scope);
    return arithmetic(e.text, left, part(e, 1, scope), budget_);
  }
  case Kind::comparison: return evaluate_comparison(e, scope);
  case Kind::all:
  case Kind::any: {
    Value value = part(e, 0, scope);
    for (std::size_t i = 1; i < e.parts.size() && truth(value) == (e.kind == Kind::all); ++i)
      value = part(e, i, scope);
    return value;
  }
  case Kind::join: return evaluate_join(e, scope);
  case Kind::conditional:
    if (truth(part(e, 0, scope)))
      return part(e, 1, scope);
    return e.parts[2] ? part(e, 2, scope) : Value(Undefined{"an if without else has no value"});
  }
  return {};
}

Value Interpreter::evaluate_list(const Expression& e, const Scope& scope) {
  List items;
  for (const ExpressionRef& each : e.parts)
    items.push_back(evaluate(*each, scope));
  return Value::list(std::move(items), e.kind == Expression::Kind::tuple);
}

Value Interpreter::evaluate_dict(const Expression& e, const Scope& scope) {
  Members members;
  for (std::size_t i = 0; i + 1 < e.parts.size(); i += 2) {
    const Value key = part(e, i, scope);
    if (!key.text())
      unsupported(fmt::format("a dict's key of type {}", type_name(key)));
    Value value = part(e, i + 1, scope);
    const auto same = [&](const auto& member) { return member.first == *key.text(); };
    const auto known = std::find_if(members.begin(), members.end(), same);
    if (known == members.end())
      members.emplace_back(*key.text(), std::move(value));
    else
      known->second = std::move(value);
  }
  return Value::dict(std::move(members));
}

Value Interpreter::evaluate_slice(const Expression& e, const Scope& scope) {
  const Value of = part(e, 0, scope);
  const auto bound = [&](std::size_t i) -> std::optional<std::int64_t> {
    const Value value = e.parts[i] ? part(e, i, scope) : Value(None{});
    if (value.none())
      return {};
    return as_integer(value, "a slice's bound");
  };
  const auto begin = bound(1);
  const auto end = bound(2);
  return slice(of, begin, end, bound(3).value_or(1), budget_);
}

Value Interpreter::evaluate_comparison(const Expression& e, const Scope& scope) {
  Value left = part(e, 0, scope);
  for (std::size_t i = 0; i < e.words.size(); ++i) {
    Value right = part(e, i + 1, scope);
    if (!compare(e.words[i], left, right))
      return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

bool Interpreter::compare(const std::string& how, const Value& a, const Value& b) {
  if (how == "==")
    return equal(a, b, budget_);
  if (how == "!=")
    return !equal(a, b, budget_);
  if (how == "in")
    return contains(b, a, budget_);
  if (how == "not in")
    return !contains(b, a, budget_);
  if (how == "<")
    return less(a, b, budget_);
  if (how == ">")
    return less(b, a, budget_);
  const bool smaller = how == "<=" ? less(a, b, budget_) : less(b, a, budget_);
  return smaller || equal(a, b, budget_);
}

Value Interpreter::evaluate_join(const Expression& e, const Scope& scope) {
  std::string text;
  for (const ExpressionRef& each : e.parts) {
    text += to_text(evaluate(*each, scope), budget_);
    budget_.spend_text(text.size());
  }
  return Value(std::move(text));
}

Arguments Interpreter::arguments(const Expression& e, const std::string& of, const Scope& scope) {
  List positional;
  for (std::size_t i = 1; i < e.parts.size(); ++i)
    positional.push_back(part(e, i, scope));
  Members named;
  for (const auto& [name, value] : e.named)
    named.emplace_back(name, evaluate(*value, scope));
  return Arguments(of, std::move(positional), std::move(named));
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  const Callable* callable = callee.callable();
  if (callee.missing())
    mistake(callee.missing()->what);
  if (!callable)
    mistake(fmt::format("a value of type {} is called", type_name(callee)));
  if (callable->macro)
    return call_macro(*callable->macro, std::move(arguments));
  return callable->self.undefined() ? call_function(*this, callable->name, arguments)
                                    : call_method(*this, callable->self, callable->name, arguments);
}

Value Interpreter::call_macro(const Statement& macro, Arguments arguments) {
  Scope inner(&globals_);
  for (const auto& [name, fallback] : macro.parameters) {
    auto given = arguments.take(name);
    if (!given && fallback)
      given = evaluate(*fallback, inner);
    inner.set(name,
              given.value_or(Value(Undefined{fmt::format("parameter '{}' was not given", name)})));
  }
  arguments.finish();
  return Value(printed(macro.body, inner));
}

} // namespace paceline::text::jinja
