#include "text/chat_template/parser.hpp"

#include <algorithm>
#include <array>
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

namespace {

using Kind = Statement::Kind;

class Parser {
public:
  explicit Parser(std::string_view source) : in_(tokens_of(source)) {}

  Body run() { return until({}); }

private:
  /// Statements up to a tag with one of these names, of which only {% is taken. opened: the line
  /// where the block begins.
  Body until(std::initializer_list<std::string_view> ends, int opened = 0) {
    const Nesting nesting(depth_, in_.line());
    Body body;
    for (;;) {
      if (in_.is(Token::Kind::text)) {
        body.push_back(make(Kind::text));
        body.back().text = in_.take().text;
      } else if (in_.is(Token::Kind::begin_print)) {
        in_.take();
        body.push_back(make(Kind::print));
        body.back().value = expressions_.tuple();
        in_.expect(Token::Kind::end_print, "'}}'");
      } else if (in_.is(Token::Kind::end)) {
        if (ends.size() > 0)
          mistake(fmt::format("the {} of line {} is missing", *(ends.end() - 1), opened),
                  in_.line());
        return body;
      } else {
        const bool ends_here = std::any_of(ends.begin(), ends.end(), [&](std::string_view end) {
          return in_.peek(1).kind == Token::Kind::name && in_.peek(1).text == end;
        });
        if (ends_here) {
          in_.take();
          return body;
        }
        in_.take();
        body.push_back(tag());
      }
    }
  }

  Statement make(Kind kind) const {
    Statement out;
    out.kind = kind;
    out.line = in_.line();
    return out;
  }

  [[noreturn]] void unknown() const {
    const std::string& name = in_.peek().text;
    for (const char* known :
         {"elif", "else", "endif", "endfor", "endset", "endmacro", "endgeneration"})
      if (name == known)
        mistake(fmt::format("{} stands where nothing of its kind begins", name), in_.line());
    unsupported(fmt::format("the statement '{}'", name), in_.line());
  }

  Statement tag() {
    const int line = in_.line();
    Statement out = tag_of(in_.peek().text);
    out.line = line;
    return out;
  }
  Statement tag_of(const std::string& name) {
    if (in_.is_name("if"))
      return choice();
    if (in_.is_name("for"))
      return loop();
    if (in_.is_name("set"))
      return set();
    if (in_.is_name("macro"))
      return macro();
    if (in_.is_name("generation"))
      return generation();
    if (!in_.is_name("break") && !in_.is_name("continue"))
      unknown();
    if (loops_ == 0)
      mistake(fmt::format("{} stands outside of any loop", name), in_.line());
    Statement out = make(name == "break" ? Kind::leave : Kind::next);
    in_.take();
    end_tag();
    return out;
  }
  void end_tag() { in_.expect(Token::Kind::end_block, "'%}'"); }

  Statement choice() {
    const int line = in_.line();
    Statement out = make(Kind::choice);
    for (bool more = true; more;) {
      const bool otherwise = in_.take().text == "else";
      Statement::Branch branch;
      if (!otherwise)
        branch.condition = expressions_.tuple();
      end_tag();
      branch.body = otherwise ? until({"endif"}, line) : until({"elif", "else", "endif"}, line);
      out.branches.push_back(std::move(branch));
      more = !in_.is_name("endif");
    }
    in_.take();
    end_tag();
    return out;
  }

  Statement loop() {
    Statement out = make(Kind::loop);
    in_.take();
    out.target = target(false);
    if (!in_.take_name("in"))
      in_.unexpected("'in'");
    out.value = expressions_.choice();
    if (in_.take_name("if"))
      out.condition = expressions_.expression();
    if (in_.is_name("recursive"))
      unsupported("a recursive loop", in_.line());
    end_tag();
    ++loops_;
    out.body = until({"else", "endfor"}, out.line);
    --loops_;
    if (in_.take_name("else")) {
      end_tag();
      out.otherwise = until({"endfor"}, out.line);
    }
    in_.take();
    end_tag();
    return out;
  }

  /// Names with commas between them, perhaps in parentheses, or a namespace's member.
  Target target(bool members) {
    Target out;
    const bool open = in_.take_symbol("(");
    out.names.push_back(in_.expect_name());
    if (members && in_.take_symbol(".")) {
      out.member = in_.expect_name();
      return out;
    }
    while (in_.take_symbol(",")) {
      out.several = true;
      if (in_.is(Token::Kind::name) && !in_.is_name("in"))
        out.names.push_back(in_.take().text);
    }
    if (open)
      in_.expect_symbol(")");
    return out;
  }

  Statement set() {
    Statement out = make(Kind::set);
    in_.take();
    out.target = target(true);
    if (in_.take_symbol("=")) {
      out.value = expressions_.tuple();
      end_tag();
      return out;
    }
    out.kind = Kind::capture;
    if (in_.is_symbol("|")) { // the filters' subject is found under a name that no template can use
      auto subject = std::make_unique<Expression>();
      subject->kind = Expression::Kind::name;
      subject->line = out.line;
      out.value = expressions_.filters(std::move(subject));
    }
    end_tag();
    out.body = body_to("endset", out.line);
    return out;
  }

  Body body_to(std::string_view end, int line) {
    const int loops = std::exchange(loops_, 0); // break and continue do not leave it
    Body body = until({end}, line);
    loops_ = loops;
    in_.take();
    end_tag();
    return body;
  }

  Statement macro() {
    if (depth_ > 1)
      unsupported("a macro within another block", in_.line());
    Statement out = make(Kind::macro);
    in_.take();
    out.text = in_.expect_name();
    in_.expect_symbol("(");
    while (!in_.is_symbol(")")) {
      std::string name = in_.expect_name();
      out.parameters.emplace_back(std::move(name),
                                  in_.take_symbol("=") ? expressions_.expression() : nullptr);
      if (!in_.take_symbol(","))
        break;
    }
    in_.expect_symbol(")");
    end_tag();
    out.body = body_to("endmacro", out.line);
    return out;
  }

  Statement generation() {
    Statement out = make(Kind::block);
    in_.take();
    end_tag();
    out.body = body_to("endgeneration", out.line);
    return out;
  }

  TokenReader in_;
  ExpressionParser expressions_{in_};
  int depth_ = 0;
  int loops_ = 0;
};

} // namespace

Template parse_template(std::string name, std::string_view source) {
  return {std::move(name), Parser(source).run()};
}

} // namespace paceline::text::jinja
