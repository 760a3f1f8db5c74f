#include "text/chat_template/interpreter.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {

std::optional<Value> Arguments::take(std::string_view name) {
  return next_ < positional_.size() ? positional_[next_++] : take_named(name);
}

std::optional<Value> Arguments::take_named(std::string_view name) {
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

std::int64_t Arguments::integer(std::string_view name, std::int64_t other) {
  const auto given = take(name);
  return given ? as_integer(*given, "what should be a whole number") : other;
}

bool Arguments::boolean(std::string_view name, bool other) {
  const auto given = take(name);
  return given ? truth(*given) : other;
}

List Arguments::take_rest() {
  List rest(positional_.begin() + std::ptrdiff_t(next_), positional_.end());
  next_ = positional_.size();
  return rest;
}

void Arguments::finish() const {
  if (!named_.empty())
    mistake(fmt::format("{} takes no argument '{}'", of_, named_.front().first));
  if (next_ < positional_.size())
    mistake(fmt::format("{} does not take {} arguments", of_, positional_.size()));
}

Descent::Descent(int& depth) : depth_(depth) {
  if (depth >= limits::template_depth_max)
    mistake("the template goes too deep");
  ++depth;
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
  for (const Scope* scope = this; scope; scope = scope->around_.get())
    for (const auto& [known, value] : scope->own_)
      if (known == name)
        return &value;
  return nullptr;
}

template <class T>
T& Interpreter::own(std::size_t cost) {
  budget_.spend(16 + cost);
  auto made = std::make_unique<T>();
  T& out = *made;
  objects_.push_back(std::move(made));
  return out;
}
template LoopValue& Interpreter::own<LoopValue>(std::size_t);

Value Interpreter::make_namespace(Members&& members) {
  auto& made = own<Namespace>(members.size());
  made.members = std::move(members);
  return Value(&made);
}

Value Interpreter::make_counter(Counter::Kind kind, List items) {
  auto& made = own<Counter>(items.size());
  made.kind = kind;
  made.items = std::move(items);
  return Value(&made);
}

Value Interpreter::make_iterator(Pull next, const char* type) {
  auto& made = own<Iterator>(0);
  made.type = type;
  made.next = [this, next = std::move(next)] {
    const Descent descent(depth_); // iterators may be nested
    budget_.spend();
    return next();
  };
  return Value(&made);
}

Value Interpreter::evaluate(const Expression& e, const Scope& scope) {
  using Kind = Expression::Kind;
  const Descent descent(depth_);
  budget_.spend();
  line_ = e.line;
  switch (e.kind) {
  case Kind::constant: return e.value;
  case Kind::name: return evaluate_name(e, scope);
  case Kind::list:
  case Kind::tuple: return evaluate_list(e, scope);
  case Kind::dict: return evaluate_dict(e, scope);
  case Kind::member: return member(part(e, 0, scope), e.text, budget_);
  case Kind::item: {
    const Value of = part(e, 0, scope);
    return item(of, part(e, 1, scope), budget_);
  }
  case Kind::slice: return evaluate_slice(e, scope);
  case Kind::call: return evaluate_call(e, scope);
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
  case Kind::sign: return evaluate_sign(e, scope);
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

Value Interpreter::evaluate_name(const Expression& e, const Scope& scope) {
  if (const Value* value = scope.find(e.text))
    return *value;
  return global_function(e.text).value_or(
      Value(Undefined{fmt::format("'{}' is undefined", e.text)}));
}

Value Interpreter::evaluate_sign(const Expression& e, const Scope& scope) {
  const Value of = part(e, 0, scope);
  if (of.real() && e.text == "-")
    return Value(-*of.real()); // so that zero changes its sign, too
  return arithmetic(e.text, Value(std::int64_t(0)), of, budget_);
}

Value Interpreter::evaluate_call(const Expression& e, const Scope& scope, const Value* caller) {
  const Value callee = part(e, 0, scope);
  const std::string name = callee.callable() ? callee.callable()->name : std::string();
  return call(callee, arguments(e, name, scope, caller));
}

Value Interpreter::evaluate_list(const Expression& e, const Scope& scope) {
  budget_.spend(2);
  List items;
  for (const ExpressionRef& each : e.parts)
    items.push_back(evaluate(*each, scope));
  return e.kind == Expression::Kind::tuple ? Value::tuple(std::move(items))
                                           : Value::list(std::move(items));
}

Value Interpreter::evaluate_dict(const Expression& e, const Scope& scope) {
  Entries entries;
  for (std::size_t i = 0; i + 1 < e.parts.size(); i += 2) {
    const Value key = part(e, i, scope);
    set_entry(entries, key, part(e, i + 1, scope), budget_);
  }
  return Value::dict_of(std::move(entries));
}

namespace {

bool sliceable(const Value& of) {
  return of.text() || of.is_tuple() || of.is_plain_list() || of.undefined() ||
         (of.list() && of.list()->kind == ListValue::Kind::range);
}

/// Returns whether Jinja knows the value before anything is rendered.
bool is_constant(const Expression& e) {
  return e.kind != Expression::Kind::name && e.kind != Expression::Kind::call &&
         std::all_of(e.parts.begin(), e.parts.end(),
                     [](const ExpressionRef& part) { return !part || is_constant(*part); });
}

} // namespace

Value Interpreter::evaluate_slice(const Expression& e, const Scope& scope) {
  const Value of = part(e, 0, scope);
  bool fits = sliceable(of);
  const auto bound = [&](std::size_t i) -> std::optional<std::int64_t> {
    const Value value = e.parts[i] ? part(e, i, scope) : Value(None{});
    const bool whole = value.integer() || value.boolean();
    fits = fits && (whole || value.none());
    return whole ? std::optional(as_integer(value, "")) : std::nullopt;
  };
  const auto begin = bound(1);
  const auto end = bound(2);
  const auto step = bound(3);
  if (fits)
    return slice(of, begin, end, step.value_or(1), budget_);
  const std::string what = fmt::format("a value of type {} has no such slice", type_name(of));
  if (!is_constant(e)) // Jinja makes an undefined value of constants, and an error of other values
    mistake(what);
  return Value(Undefined{what});
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

Arguments Interpreter::arguments(const Expression& e, const std::string& of, const Scope& scope,
                                 const Value* caller) {
  List positional;
  for (std::size_t i = 1; i < e.parts.size(); ++i)
    positional.push_back(part(e, i, scope));
  Members named;
  for (const auto& [name, value] : e.named)
    named.emplace_back(name, evaluate(*value, scope));
  const auto add = [&](const std::string& name, Value value) {
    const auto same = [&](const auto& argument) { return argument.first == name; };
    if (std::any_of(named.begin(), named.end(), same))
      mistake(fmt::format("{} is given its argument '{}' twice", of, name));
    named.emplace_back(name, std::move(value));
  };
  if (caller)
    add("caller", *caller);
  if (e.rest)
    for (Value& each : items_of(evaluate(*e.rest, scope), budget_))
      positional.push_back(std::move(each));
  if (e.named_rest) {
    const Value rest = evaluate(*e.named_rest, scope);
    if (!rest.dict())
      mistake("what follows ** is no dict");
    for (const auto& [name, value] : rest.dict()->entries)
      add(as_text(name, "the name of an argument"), value);
  }
  return Arguments(of, std::move(positional), std::move(named));
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  const Descent descent(depth_);
  if (callee.missing())
    mistake(callee.missing()->what);
  if (LoopValue* loop = callee.loop())
    return call_loop(*loop, std::move(arguments));
  if (Counter* joiner = callee.counter(); joiner && joiner->kind == Counter::Kind::joiner) {
    arguments.finish();
    return joiner->at++ == 0 ? Value("") : joiner->items[0];
  }
  const Callable* callable = callee.callable();
  if (!callable)
    mistake(fmt::format("a value of type {} is called", type_name(callee)));
  if (callable->macro)
    return call_macro(*callable, std::move(arguments));
  if (callable->self.undefined())
    return call_function(*this, callable->name, arguments);
  if (callable->self.space())
    return call_block(callable->name, std::move(arguments));
  return call_method(*this, callable->self, callable->name, arguments);
}

} // namespace paceline::text::jinja
