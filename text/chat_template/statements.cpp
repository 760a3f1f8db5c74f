// Follows statements: prints, loops, macros and blocks.
#include "text/chat_template/interpreter.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {

bool LoopValue::peek() {
  if (ahead.empty())
    if (auto item = source())
      ahead.push_back(*std::move(item));
  return !ahead.empty();
}

bool LoopValue::next() {
  if (!peek())
    return false;
  previous = std::move(current);
  current = std::move(ahead.front());
  ahead.pop_front();
  ++turns;
  return true;
}

std::size_t LoopValue::length() {
  if (!size) {
    while (auto item = source())
      ahead.push_back(*std::move(item));
    size = turns + ahead.size();
  }
  return *size;
}

namespace {

/// Finds a template's blocks, at any depth.
void find_blocks(const Body& body, std::vector<const Statement*>& out) {
  for (const Statement& statement : body) {
    if (statement.kind == Statement::Kind::block)
      out.push_back(&statement);
    find_blocks(statement.body, out);
    find_blocks(statement.otherwise, out);
    for (const Statement::Branch& branch : statement.branches)
      find_blocks(branch.body, out);
  }
}

} // namespace

std::string Interpreter::run(const Template& followed, Members&& globals) {
  template_ = &followed;
  for (auto& [name, value] : globals)
    globals_->set(name, std::move(value));
  if (!globals_->find("self")) {
    const Value self = make_namespace({});
    std::vector<const Statement*> blocks;
    find_blocks(followed.body, blocks);
    for (const Statement* block : blocks)
      self.space()->set(block->text, Value(Callable{block->text, self}));
    globals_->set("self", self);
  }
  follow(followed.body, *globals_);
  return std::move(out_);
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
  case Statement::Kind::filter:
  case Statement::Kind::capture: return follow_captured(s, scope);
  case Statement::Kind::macro: scope.set(s.text, make_macro(s, scope)); break;
  case Statement::Kind::call: {
    const Value caller = make_macro(s, scope);
    print(to_text(evaluate_call(*s.value, scope, &caller), budget_));
    break;
  }
  case Statement::Kind::with: return follow_with(s, scope);
  case Statement::Kind::scoped: return follow(s.body, *within(scope));
  case Statement::Kind::block: return follow(s.body, *within(s.flag ? scope : *globals_));
  case Statement::Kind::absent:
    mistake(fmt::format("{} reads another template, and there is none", s.text));
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

Interpreter::Flow Interpreter::follow_with(const Statement& s, const Scope& scope) {
  const ScopeRef inner = within(scope);
  for (const auto& [target, value] : s.with)
    assign(target, evaluate(*value, scope), *inner);
  return follow(s.body, *inner);
}

/// Gives the items of a value for which the loop's condition holds, each tested in its turn.
Pull Interpreter::loop_items(const Statement& s, const Value& of, const Scope& scope) {
  Pull all = iterate(of, budget_);
  if (!s.condition)
    return all;
  return [this, &s, &scope, all = std::move(all)]() -> std::optional<Value> {
    while (auto item = all()) {
      const ScopeRef inner = within(scope);
      assign(s.target, *item, *inner);
      if (truth(evaluate(*s.condition, *inner)))
        return item;
    }
    return {};
  };
}

Interpreter::Flow Interpreter::follow_loop(const Statement& s, Scope& scope) {
  return follow_turns(s, evaluate(*s.value, scope), scope, 1);
}

Interpreter::Flow Interpreter::follow_turns(const Statement& s, const Value& of, const Scope& scope,
                                            std::int64_t depth) {
  auto& loop = own<LoopValue>(0);
  loop.source = loop_items(s, of, scope);
  if (!s.condition && (of.list() || of.dict() || of.text()))
    loop.size = jinja::length(of);
  loop.statement = &s;
  loop.around = &scope;
  loop.depth = depth;
  if (s.flag)
    keep(scope);
  bool left = false;
  while (!left && loop.next()) {
    budget_.spend();
    const ScopeRef turn = within(scope);
    assign(s.target, *loop.current, *turn);
    turn->set("loop", Value(&loop));
    left = follow(s.body, *turn) == Flow::leave;
  }
  loop.source = [] { return std::optional<Value>(); };
  if (loop.turns > 0)
    return Flow::on;
  return follow(s.otherwise, *within(scope));
}

Value Interpreter::call_loop(LoopValue& loop, Arguments arguments) {
  const Value of = arguments.require("iterable");
  arguments.finish();
  if (!loop.statement->flag)
    mistake("a loop that is not recursive is called");
  std::string around = std::exchange(out_, {});
  follow_turns(*loop.statement, of, *loop.around, loop.depth + 1);
  return Value(std::exchange(out_, std::move(around)));
}

/// Takes what a body prints, through filters if there are any, and assigns or prints it.
Interpreter::Flow Interpreter::follow_captured(const Statement& s, Scope& scope) {
  const ScopeRef inner = within(scope);
  std::string around = std::exchange(out_, {});
  const Flow flow = follow(s.body, *inner);
  Value value(std::exchange(out_, std::move(around)));
  if (flow != Flow::on)
    return flow; // what was printed is lost
  if (s.value) {
    inner->set("", std::move(value)); // the filters' subject
    value = evaluate(*s.value, *inner);
  }
  if (s.kind == Statement::Kind::filter)
    print(to_text(value, budget_));
  else
    assign(s.target, value, scope);
  return Flow::on;
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
    const Value* of = scope.find(target.name);
    Namespace* space = of ? of->space() : nullptr;
    if (!space)
      mistake(fmt::format("'{}' is no namespace, so its members cannot be set", target.name));
    budget_.spend(1 + space->members.size() / 8);
    space->set(target.member, value);
    return;
  }
  if (!target.several)
    return scope.set(target.name, value);
  const List items = items_of(value, budget_);
  if (items.size() != target.parts.size())
    mistake(fmt::format("{} values are assigned to {} names", items.size(), target.parts.size()));
  for (std::size_t i = 0; i < items.size(); ++i)
    assign(target.parts[i], items[i], scope);
}

void Interpreter::keep(const Scope& scope) {
  if (!kept_.empty() && kept_.back().get() == &scope)
    return;
  budget_.spend(32);
  kept_.push_back(scope.shared_from_this());
}

Value Interpreter::make_macro(const Statement& macro, const Scope& scope) {
  keep(scope);
  return Value(Callable{macro.text, Value(), &macro, &scope});
}

Value Interpreter::call_macro(const Callable& callable, Arguments arguments) {
  const Statement& macro = *callable.macro;
  const ScopeRef inner = within(*callable.scope);
  for (const auto& [name, fallback] : macro.parameters) {
    auto given = arguments.take(name);
    if (!given && fallback)
      given = evaluate(*fallback, *inner);
    inner->set(name,
               given.value_or(Value(Undefined{fmt::format("parameter '{}' was not given", name)})));
  }
  const auto catches = [&](const char* name) {
    return std::find(macro.catches.begin(), macro.catches.end(), name) != macro.catches.end();
  };
  if (catches("caller")) {
    auto caller = arguments.take_named("caller");
    const bool given = caller && !caller->none();
    inner->set("caller", given ? *caller : Value(Undefined{"there is no caller"}));
  }
  if (catches("varargs"))
    inner->set("varargs", Value::tuple(arguments.take_rest()));
  if (catches("kwargs"))
    inner->set("kwargs", Value::dict(arguments.take_named()));
  arguments.finish();
  return Value(printed(macro.body, *inner));
}

Value Interpreter::call_block(const std::string& name, Arguments arguments) {
  arguments.finish();
  std::vector<const Statement*> blocks;
  find_blocks(template_->body, blocks);
  const auto named = std::find_if(blocks.begin(), blocks.end(),
                                  [&](const Statement* block) { return block->text == name; });
  if (named == blocks.end())
    mistake(fmt::format("there is no block '{}'", name));
  return Value(printed((*named)->body, *within(*globals_)));
}

} // namespace paceline::text::jinja
