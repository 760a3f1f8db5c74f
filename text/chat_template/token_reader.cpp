#include "text/chat_template/parser.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

std::string described(const Token& token) {
  switch (token.kind) {
  case Token::Kind::end: return "the end of the template";
  case Token::Kind::end_block: return "'%}'";
  case Token::Kind::end_print: return "'}}'";
  case Token::Kind::string: return "a string";
  default: return fmt::format("'{}'", token.text);
  }
}

} // namespace

Token TokenReader::take() {
  Token token = peek();
  at_ += token.kind == Token::Kind::end ? 0 : 1;
  return token;
}

bool TokenReader::is_symbol(std::string_view symbol) const {
  return is(Token::Kind::symbol) && peek().text == symbol;
}

bool TokenReader::is_name(std::string_view name) const {
  return is(Token::Kind::name) && peek().text == name;
}

bool TokenReader::take_symbol(std::string_view symbol) {
  const bool there = is_symbol(symbol);
  if (there)
    take();
  return there;
}

bool TokenReader::take_name(std::string_view name) {
  const bool there = is_name(name);
  if (there)
    take();
  return there;
}

void TokenReader::expect_symbol(std::string_view symbol) {
  if (!take_symbol(symbol))
    unexpected(fmt::format("'{}'", symbol));
}

void TokenReader::expect(Token::Kind kind, std::string_view what) {
  if (!is(kind))
    unexpected(what);
  take();
}

std::string TokenReader::expect_name() {
  if (!is(Token::Kind::name))
    unexpected("a name");
  return take().text;
}

void TokenReader::unexpected(std::string_view wanted) const {
  mistake(fmt::format("{} stands where {} should", described(peek()), wanted), line());
}

} // namespace paceline::text::jinja
