// The operands of operators: names, constants, calls, members, filters and tests.
#include "text/chat_template/parser.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

using Kind = Expression::Kind;

} // namespace

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
    mentioned_.insert(token.text);
    return named;
  }
  case Token::Kind::string: {
    std::string text;
    while (in_.is(Token::Kind::string)) // adjacent strings are joined
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
  const int base = begin[0] != '0' || end - begin < 2 ? 10
                   : (begin[1] | 0x20) == 'x'         ? 16
                   : (begin[1] | 0x20) == 'o'         ? 8
                   : (begin[1] | 0x20) == 'b'         ? 2
                                                      : 10;
  std::int64_t x = 0;
  if (std::from_chars(begin + (base == 10 ? 0 : 2), end, x, base).ec != std::errc{})
    mistake("a number is too large", token.line);
  return constant(Value(x));
}

ExpressionRef ExpressionParser::in_parentheses() {
  in_.expect_symbol("(");
  auto out = make(Kind::tuple);
  bool comma = false;
  while (!in_.is_symbol(")")) {
    add_part(*out, expression());
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
    add_part(*out, expression());
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
    add_part(*out, expression());
    in_.expect_symbol(":");
    add_part(*out, expression());
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
        add_part(*out, std::move(subject));
        add_part(*out, number());
        subject = std::move(out);
        continue;
      }
      auto out = make(Kind::member, in_.expect_name());
      add_part(*out, std::move(subject));
      subject = std::move(out);
    } else {
      return subject;
    }
  }
}

ExpressionRef ExpressionParser::postfix_filters(ExpressionRef subject) {
  for (;;) {
    if (in_.take_symbol("|"))
      subject = filter(std::move(subject));
    else if (in_.is_name("is"))
      subject = test(std::move(subject));
    else if (in_.is_symbol("("))
      subject = call(std::move(subject));
    else
      return subject;
  }
}

ExpressionRef ExpressionParser::filters(ExpressionRef subject, bool opened) {
  if (opened)
    subject = filter(std::move(subject));
  while (in_.take_symbol("|"))
    subject = filter(std::move(subject));
  return subject;
}

/// Reads an index, or a slice, whose parts[0] the caller sets.
ExpressionRef ExpressionParser::subscripted() {
  const auto ends = [&] { return in_.is_symbol(":") || in_.is_symbol("]") || in_.is_symbol(","); };
  auto out = make(Kind::slice);
  out->parts.push_back(nullptr);
  add_part(*out, ends() ? nullptr : expression());
  if (out->parts[1] && !in_.is_symbol(":"))
    return std::move(out->parts[1]);
  if (!in_.is_symbol(":"))
    in_.unexpected("an index");
  while (out->parts.size() < 4 && in_.take_symbol(":"))
    add_part(*out, ends() ? nullptr : expression());
  out->parts.resize(4);
  return out;
}

ExpressionRef ExpressionParser::subscript(ExpressionRef subject) {
  in_.expect_symbol("[");
  auto several = make(Kind::tuple);
  while (!in_.is_symbol("]")) {
    if (!several->parts.empty())
      in_.expect_symbol(",");
    add_part(*several, subscripted());
    if (several->parts.back()->kind == Kind::slice && !several->parts.back()->parts[0] &&
        !(several->parts.size() == 1 && in_.is_symbol("]")))
      mistake("a slice stands beside other indices", in_.line());
  }
  in_.expect_symbol("]");
  if (several->parts.size() == 1 && several->parts[0]->kind == Kind::slice &&
      !several->parts[0]->parts[0]) {
    auto slice = std::move(several->parts[0]);
    slice->depth = std::max(slice->depth, subject->depth + 1);
    slice->parts[0] = std::move(subject);
    return slice;
  }
  auto out = make(Kind::item);
  add_part(*out, std::move(subject));
  add_part(*out, several->parts.size() == 1 ? std::move(several->parts[0]) : std::move(several));
  return out;
}

std::string ExpressionParser::dotted_name() {
  std::string name = in_.expect_name();
  while (in_.take_symbol("."))
    name += "." + in_.expect_name();
  return name;
}

ExpressionRef ExpressionParser::filter(ExpressionRef subject) {
  auto out = make(Kind::filter, dotted_name());
  add_part(*out, std::move(subject));
  if (in_.is_symbol("("))
    arguments(*out);
  return out;
}

ExpressionRef ExpressionParser::test(ExpressionRef subject) {
  in_.take(); // is
  const bool negated = in_.take_name("not");
  auto out = make(Kind::test, dotted_name());
  add_part(*out, std::move(subject));
  const Token& next = in_.peek();
  const bool value = next.kind == Token::Kind::string || next.kind == Token::Kind::integer ||
                     next.kind == Token::Kind::real || in_.is_symbol("[") || in_.is_symbol("{");
  const bool word = next.kind == Token::Kind::name && next.text != "else" && next.text != "or" &&
                    next.text != "and";
  if (in_.is_symbol("(")) {
    arguments(*out);
  } else if (in_.is_name("is")) {
    mistake("tests cannot be chained with is", next.line);
  } else if (value || word) {
    const Nesting nesting(depth_, next.line);
    add_part(*out, postfix(primary()));
  }
  if (!negated)
    return out;
  auto negation = make(Kind::negation);
  add_part(*negation, std::move(out));
  return negation;
}

ExpressionRef ExpressionParser::call(ExpressionRef callee) {
  auto out = make(Kind::call);
  add_part(*out, std::move(callee));
  arguments(*out);
  return out;
}

/// Reads `name=value`.
void ExpressionParser::keyword(Expression& call) {
  std::string name = in_.take().text;
  in_.take();
  const auto same = [&](const auto& argument) { return argument.first == name; };
  if (std::any_of(call.named.begin(), call.named.end(), same))
    mistake(fmt::format("the argument '{}' is given twice", name), in_.line());
  add_part(call, expression()); // this updates the depth
  call.named.emplace_back(std::move(name), std::move(call.parts.back()));
  call.parts.pop_back();
}

void ExpressionParser::arguments(Expression& call) {
  in_.expect_symbol("(");
  const auto order = [&](bool kept) {
    if (!kept)
      mistake("a call's arguments are in no valid order", in_.line());
  };
  const auto rest = [&] {
    add_part(call, expression()); // this updates the depth
    ExpressionRef out = std::move(call.parts.back());
    call.parts.pop_back();
    return out;
  };
  while (!in_.is_symbol(")")) {
    const Token& next = in_.peek(1);
    if (in_.take_symbol("*")) {
      order(!call.rest && !call.named_rest);
      call.rest = rest();
    } else if (in_.take_symbol("**")) {
      order(!call.named_rest);
      call.named_rest = rest();
    } else if (in_.is(Token::Kind::name) && next.kind == Token::Kind::symbol && next.text == "=") {
      order(!call.named_rest);
      keyword(call);
    } else {
      order(!call.rest && !call.named_rest && call.named.empty());
      add_part(call, expression());
    }
    if (!in_.take_symbol(","))
      break;
  }
  in_.expect_symbol(")");
}

} // namespace paceline::text::jinja
