// Parses tokens into a tree.
#pragma once

#include "text/chat_template/lexer.hpp"
#include "text/chat_template/syntax.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::text::jinja {

/// The tokens of a template, read from the front. Throws Failure if a token is not as it must be.
class TokenReader {
public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  int line() const { return peek().line; }
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

/// Adds a part. Refuses deep trees, since following them is recursive.
void add_part(Expression& to, ExpressionRef part);

/// The rules are in the order in which operators bind in Jinja.
class ExpressionParser {
public:
  explicit ExpressionParser(TokenReader& in) : in_(in) {}

  ExpressionRef expression();   ///< An expression, which may be `x if y else z`.
  ExpressionRef choice();       ///< An expression without that.
  ExpressionRef tuple();        ///< An expression, or several with commas between them.
  ExpressionRef choice_tuple(); ///< The same, of choices.
  /// Reads further filters of a subject: `| name(...) | ...`; opened: the first one has no bar.
  ExpressionRef filters(ExpressionRef subject, bool opened = false);
  /// Reads a call's arguments in parentheses.
  void arguments(Expression& call);
  ExpressionRef primary();
  ExpressionRef postfix(ExpressionRef subject);
  /// Returns the names that were read as variables since this set was emptied.
  std::set<std::string, std::less<>>& mentioned() { return mentioned_; }

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
  ExpressionRef tuple_of(Rule part);
  ExpressionRef postfix_filters(ExpressionRef subject);
  ExpressionRef subscript(ExpressionRef subject);
  ExpressionRef subscripted();
  ExpressionRef filter(ExpressionRef subject);
  void keyword(Expression& call);
  std::string dotted_name();
  ExpressionRef test(ExpressionRef subject);
  ExpressionRef call(ExpressionRef callee);
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
  std::set<std::string, std::less<>> mentioned_;
};

/// Parses a template. Throws Failure.
Template parse_template(std::string name, std::string_view source);

} // namespace paceline::text::jinja
