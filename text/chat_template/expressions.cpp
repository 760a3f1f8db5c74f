#include "text/chat_template/parser.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

using Kind = Expression::Kind;

} // namespace

void add_part(Expression& to, ExpressionRef part) {
  if (part)
    to.depth = std::max(to.depth, part->depth + 1);
  if (to.depth > limits::template_nesting_max)
    mistake("an expression is nested too deeply", to.line);
  to.parts.push_back(std::move(part));
}

Nesting::Nesting(int& depth, int line) : depth_(depth) {
  if (depth >= limits::template_nesting_max)
    mistake("the template is nested too deeply", line);
  ++depth;
}

ExpressionRef ExpressionParser::make(Kind kind, std::string text) const {
  auto out = std::make_unique<Expression>();
  out->kind = kind;
  out->line = in_.line();
  out->text = std::move(text);
  return out;
}

ExpressionRef ExpressionParser::constant(Value value) const {
  auto out = make(Kind::constant);
  out->value = std::move(value);
  return out;
}

ExpressionRef ExpressionParser::tuple() {
  return tuple_of(&ExpressionParser::expression);
}

ExpressionRef ExpressionParser::choice_tuple() {
  return tuple_of(&ExpressionParser::choice);
}

ExpressionRef ExpressionParser::tuple_of(Rule part) {
  const Nesting nesting(depth_, in_.line());
  auto first = (this->*part)();
  if (!in_.is_symbol(","))
    return first;
  auto out = make(Kind::tuple);
  add_part(*out, std::move(first));
  while (in_.take_symbol(",")) {
    if (in_.is(Token::Kind::end_block) || in_.is(Token::Kind::end_print) ||
        in_.is_name("recursive"))
      break;
    add_part(*out, (this->*part)());
  }
  return out;
}

ExpressionRef ExpressionParser::expression() {
  const Nesting nesting(depth_, in_.line());
  auto out = choice();
  while (in_.is_name("if")) {
    auto conditional = make(Kind::conditional);
    in_.take();
    add_part(*conditional, choice());
    add_part(*conditional, std::move(out));
    add_part(*conditional, in_.take_name("else") ? expression() : nullptr);
    out = std::move(conditional);
  }
  return out;
}

ExpressionRef ExpressionParser::several(Rule part, std::string_view name, Kind kind) {
  auto first = (this->*part)();
  if (!in_.is_name(name))
    return first;
  auto out = make(kind);
  add_part(*out, std::move(first));
  while (in_.take_name(name))
    add_part(*out, (this->*part)());
  return out;
}

ExpressionRef ExpressionParser::choice() {
  return several(&ExpressionParser::conjunction, "or", Kind::any);
}

ExpressionRef ExpressionParser::conjunction() {
  return several(&ExpressionParser::negation, "and", Kind::all);
}

ExpressionRef ExpressionParser::negation() {
  if (!in_.is_name("not"))
    return comparison();
  const Nesting nesting(depth_, in_.line());
  auto out = make(Kind::negation);
  in_.take();
  add_part(*out, negation());
  return out;
}

ExpressionRef ExpressionParser::comparison() {
  auto first = sum();
  const auto next = [&]() -> std::string {
    for (const std::string_view symbol : {"==", "!=", "<=", ">=", "<", ">"})
      if (in_.take_symbol(symbol))
        return std::string(symbol);
    if (in_.take_name("in"))
      return "in";
    if (in_.is_name("not") && in_.peek(1).kind == Token::Kind::name && in_.peek(1).text == "in") {
      in_.take();
      in_.take();
      return "not in";
    }
    return {};
  };
  std::string word = next();
  if (word.empty())
    return first;
  auto out = make(Kind::comparison);
  add_part(*out, std::move(first));
  for (; !word.empty(); word = next()) {
    out->words.push_back(std::move(word));
    add_part(*out, sum());
  }
  return out;
}

ExpressionRef ExpressionParser::operations(Rule part,
                                           std::initializer_list<std::string_view> symbols) {
  auto left = (this->*part)();
  for (;;) {
    const auto* symbol = std::find_if(symbols.begin(), symbols.end(),
                                      [&](std::string_view s) { return in_.is_symbol(s); });
    if (symbol == symbols.end())
      return left;
    auto out = make(Kind::arithmetic, std::string(*symbol));
    in_.take();
    add_part(*out, std::move(left));
    add_part(*out, (this->*part)());
    left = std::move(out);
  }
}

ExpressionRef ExpressionParser::sum() {
  return operations(&ExpressionParser::join, {"+", "-"});
}

ExpressionRef ExpressionParser::join() {
  auto first = product();
  if (!in_.is_symbol("~"))
    return first;
  auto out = make(Kind::join);
  add_part(*out, std::move(first));
  while (in_.take_symbol("~"))
    add_part(*out, product());
  return out;
}

ExpressionRef ExpressionParser::product() {
  return operations(&ExpressionParser::power, {"*", "//", "/", "%"});
}

ExpressionRef ExpressionParser::power() {
  return operations(&ExpressionParser::unary, {"**"});
}

ExpressionRef ExpressionParser::sign(bool filtered) {
  const Nesting nesting(depth_, in_.line());
  ExpressionRef out;
  if (in_.is_symbol("-") || in_.is_symbol("+")) {
    out = make(Kind::sign, in_.peek().text);
    in_.take();
    add_part(*out, sign(false));
  } else {
    out = primary();
  }
  out = postfix(std::move(out));
  return filtered ? postfix_filters(std::move(out)) : std::move(out);
}

} // namespace paceline::text::jinja
