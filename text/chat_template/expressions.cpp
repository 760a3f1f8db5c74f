#include "text/chat_template/parser.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

using Kind = Expression::Kind;

/// Adds a part. Deep trees are refused: following one is recursive.
void add(Expression& to, ExpressionRef part) {
  if (part)
    to.depth = std::max(to.depth, part->depth + 1);
  if (to.depth > limits::template_nesting_max)
    mistake("an expression is nested too deeply", to.line);
  to.parts.push_back(std::move(part));
}

} // namespace

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
  auto first = expression();
  if (!in_.is_symbol(","))
    return first;
  auto out = make(Kind::tuple);
  add(*out, std::move(first));
  while (in_.take_symbol(",")) {
    if (in_.is(Token::Kind::end_block) || in_.is(Token::Kind::end_print))
      break;
    add(*out, expression());
  }
  return out;
}

ExpressionRef ExpressionParser::expression() {
  const Nesting nesting(depth_, in_.line());
  auto out = choice();
  while (in_.is_name("if")) {
    auto conditional = make(Kind::conditional);
    in_.take();
    add(*conditional, choice());
    add(*conditional, std::move(out));
    add(*conditional, in_.take_name("else") ? expression() : nullptr);
    out = std::move(conditional);
  }
  return out;
}

ExpressionRef ExpressionParser::several(Rule part, std::string_view name, Kind kind) {
  auto first = (this->*part)();
  if (!in_.is_name(name))
    return first;
  auto out = make(kind);
  add(*out, std::move(first));
  while (in_.take_name(name))
    add(*out, (this->*part)());
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
  add(*out, negation());
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
  add(*out, std::move(first));
  for (; !word.empty(); word = next()) {
    out->words.push_back(std::move(word));
    add(*out, sum());
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
    add(*out, std::move(left));
    add(*out, (this->*part)());
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
  add(*out, std::move(first));
  while (in_.take_symbol("~"))
    add(*out, product());
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
    add(*out, sign(false));
  } else {
    out = primary();
  }
  out = postfix(std::move(out));
  return filtered ? postfix_filters(std::move(out)) : std::move(out);
}

ExpressionRef ExpressionParser::primary() {
  const Token token = in_.peek();
  switch (token.kind) {
  case Token::Kind::name: {
    auto named = make(Kind::name, in_.take().text);
    if (token.text == "true" || token.text == "True")
      return constant(Value(true));
    if (token.text == "false" || token.text == "False")
      return constant(Value(false));
    if (token.text == "none" || token.text == "None")
      return constant(Value(None{}));
    return named;
  }
  case Token::Kind::string: {
    std::string text;
    while (in_.is(Token::Kind::string)) // neighbours are one
      text += in_.take().text;
    return constant(Value(std::move(text)));
  }
  case Token::Kind::integer:
  case Token::Kind::real: return number();
  default: break;
  }
  if (in_.is_symbol("("))
    return in_parentheses();
  if (in_.is_symbol("["))
    return list();
  if (in_.is_symbol("{"))
    return dict();
  in_.unexpected("an expression");
}

ExpressionRef ExpressionParser::number() {
  const Token token = in_.take();
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  if (token.kind == Token::Kind::real) {
    double x = 0;
    if (std::from_chars(begin, end, x).ec != std::errc{})
      mistake("a number is too large", token.line);
    return constant(Value(x));
  }
  std::int64_t x = 0;
  if (std::from_chars(begin, end, x).ec != std::errc{})
    mistake("a number is too large", token.line);
  return constant(Value(x));
}

ExpressionRef ExpressionParser::in_parentheses() {
  in_.expect_symbol("(");
  auto out = make(Kind::tuple);
  bool comma = false;
  while (!in_.is_symbol(")")) {
    add(*out, expression());
    if (!in_.take_symbol(","))
      break;
    comma = true;
  }
  in_.expect_symbol(")");
  return out->parts.size() == 1 && !comma ? std::move(out->parts[0]) : std::move(out);
}

ExpressionRef ExpressionParser::list() {
  auto out = make(Kind::list);
  in_.expect_symbol("[");
  while (!in_.is_symbol("]")) {
    add(*out, expression());
    if (!in_.take_symbol(","))
      break;
  }
  in_.expect_symbol("]");
  return out;
}

ExpressionRef ExpressionParser::dict() {
  auto out = make(Kind::dict);
  in_.expect_symbol("{");
  while (!in_.is_symbol("}")) {
    add(*out, expression());
    in_.expect_symbol(":");
    add(*out, expression());
    if (!in_.take_symbol(","))
      break;
  }
  in_.expect_symbol("}");
  return out;
}

ExpressionRef ExpressionParser::postfix(ExpressionRef subject) {
  for (;;) {
    if (in_.is_symbol("(")) {
      subject = call(std::move(subject));
    } else if (in_.is_symbol("[")) {
      subject = subscript(std::move(subject));
    } else if (in_.is_symbol(".")) {
      in_.take();
      if (in_.is(Token::Kind::integer)) {
        auto out = make(Kind::item);
        add(*out, std::move(subject));
        add(*out, number());
        subject = std::move(out);
        continue;
      }
      auto out = make(Kind::member, in_.expect_name());
      add(*out, std::move(subject));
      subject = std::move(out);
    } else {
      return subject;
    }
  }
}

ExpressionRef ExpressionParser::postfix_filters(ExpressionRef subject) {
  for (;;) {
    if (in_.is_symbol("|"))
      subject = filter(std::move(subject));
    else if (in_.is_name("is"))
      subject = test(std::move(subject));
    else if (in_.is_symbol("("))
      subject = call(std::move(subject));
    else
      return subject;
  }
}

ExpressionRef ExpressionParser::filters(ExpressionRef subject) {
  while (in_.is_symbol("|"))
    subject = filter(std::move(subject));
  return subject;
}

ExpressionRef ExpressionParser::subscript(ExpressionRef subject) {
  in_.expect_symbol("[");
  auto out = make(Kind::item);
  add(*out, std::move(subject));
  const auto ends = [&] { return in_.is_symbol(":") || in_.is_symbol("]"); };
  add(*out, ends() ? nullptr : tuple());
  while (in_.take_symbol(":")) {
    out->kind = Kind::slice;
    add(*out, ends() ? nullptr : expression());
  }
  const bool empty = out->kind == Kind::item && !out->parts[1];
  if (empty || out->parts.size() > 4)
    in_.unexpected("an index");
  out->parts.resize(out->kind == Kind::slice ? 4 : 2);
  in_.expect_symbol("]");
  return out;
}

ExpressionRef ExpressionParser::filter(ExpressionRef subject) {
  in_.expect_symbol("|");
  auto out = make(Kind::filter, in_.expect_name());
  add(*out, std::move(subject));
  if (in_.is_symbol("("))
    arguments(*out);
  return out;
}

ExpressionRef ExpressionParser::test(ExpressionRef subject) {
  in_.take(); // is
  const bool negated = in_.take_name("not");
  auto out = make(Kind::test, in_.expect_name());
  add(*out, std::move(subject));
  const Token& next = in_.peek();
  const bool value = next.kind == Token::Kind::string || next.kind == Token::Kind::integer ||
                     next.kind == Token::Kind::real || in_.is_symbol("[") || in_.is_symbol("{");
  const bool word = next.kind == Token::Kind::name && next.text != "else" && next.text != "or" &&
                    next.text != "and" && next.text != "if" && next.text != "in" &&
                    next.text != "not";
  if (in_.is_symbol("(")) {
    arguments(*out);
  } else if (in_.is_name("is")) {
    mistake("tests cannot be chained with is", next.line);
  } else if (value || word) {
    const Nesting nesting(depth_, next.line);
    add(*out, postfix(primary()));
  }
  if (!negated)
    return out;
  auto negation = make(Kind::negation);
  add(*negation, std::move(out));
  return negation;
}

ExpressionRef ExpressionParser::call(ExpressionRef callee) {
  auto out = make(Kind::call);
  add(*out, std::move(callee));
  arguments(*out);
  return out;
}

void ExpressionParser::arguments(Expression& call) {
  in_.expect_symbol("(");
  while (!in_.is_symbol(")")) {
    const Token& next = in_.peek(1);
    if (in_.is_symbol("*") || in_.is_symbol("**"))
      unsupported("passing arguments with *", in_.line());
    const bool by_name =
        in_.is(Token::Kind::name) && next.kind == Token::Kind::symbol && next.text == "=";
    if (by_name) {
      std::string name = in_.take().text;
      in_.take();
      add(call, expression()); // for the depth
      call.named.emplace_back(std::move(name), std::move(call.parts.back()));
      call.parts.pop_back();
    } else if (!call.named.empty()) {
      mistake("an argument without name follows one with a name", in_.line());
    } else {
      add(call, expression());
    }
    if (!in_.take_symbol(","))
      break;
  }
  in_.expect_symbol(")");
}

} // namespace paceline::text::jinja
