// From tokens to a tree.
#pragma once

#include "text/chat_template/lexer.hpp"
#include "text/chat_template/syntax.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text::jinja {

/// The tokens of a template, read from the front. What is not as it must be is a Failure.
class TokenReader {
public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  int line() const { return peek().line; }
  std::size_t position() const { return at_; }
  /// Whether this name stands between a position and the next token.
  bool passed_name(std::size_t from, std::string_view name) const;
  Token take();
  bool is(Token::Kind kind) const { return peek().kind == kind; }
  bool is_symbol(std::string_view symbol) const;
  bool is_name(std::string_view name) const;
  bool take_symbol(std::string_view symbol);
  bool take_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect(Token::Kind kind, std::string_view what);
  std::string expect_name();
  [[noreturn]] void unexpected(std::string_view wanted) const;

private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

/// Keeps recursion within limits::template_nesting_max.
class Nesting {
public:
  Nesting(int& depth, int line);
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

private:
  int& depth_;
};

/// In the order in which they bind, as Jinja has it.
class ExpressionParser {
public:
  explicit ExpressionParser(TokenReader& in) : in_(in) {}

  ExpressionRef expression(); ///< With `x if y else z`.
  ExpressionRef choice();     ///< Without.
  ExpressionRef tuple();      ///< An expression, or several with commas between them.
  /// Further filters of a subject: `| name(...) | ...`
  ExpressionRef filters(ExpressionRef subject);

private:
  using Rule = ExpressionRef (ExpressionParser::*)();

  ExpressionRef conjunction();
  ExpressionRef negation();
  ExpressionRef comparison();
  ExpressionRef sum();
  ExpressionRef join();
  ExpressionRef product();
  ExpressionRef power();
  ExpressionRef sign(bool filtered);
  ExpressionRef unary() { return sign(true); }
  ExpressionRef primary();
  ExpressionRef postfix(ExpressionRef subject);
  ExpressionRef postfix_filters(ExpressionRef subject);
  ExpressionRef subscript(ExpressionRef subject);
  ExpressionRef filter(ExpressionRef subject);
  ExpressionRef test(ExpressionRef subject);
  ExpressionRef call(ExpressionRef callee);
  void arguments(Expression& call);
  ExpressionRef in_parentheses();
  ExpressionRef list();
  ExpressionRef dict();
  ExpressionRef number();
  ExpressionRef several(Rule part, std::string_view name, Expression::Kind kind);
  ExpressionRef operations(Rule part, std::initializer_list<std::string_view> symbols);

  ExpressionRef make(Expression::Kind kind, std::string text = {}) const;
  ExpressionRef constant(Value value) const;

  TokenReader& in_;
  int depth_ = 0;
};

/// Throws Failure.
Template parse_template(std::string name, std::string_view source);

} // namespace paceline::text::jinja
