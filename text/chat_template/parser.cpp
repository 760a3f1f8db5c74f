#include "text/chat_template/parser.hpp"

#include "text/chat_template/interpreter.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>

namespace paceline::text::jinja {
namespace {

class Parser {
public:
  explicit Parser(std::string_view source) : in_(tokens_of(source)) {}

  Template run(std::string name) {
    Body body = until({});
    return {std::move(name), std::move(body)};
  }

private:
  /// Reads statements up to a tag with one of these names, of which it takes only {%. opened: the
  /// line where the block begins.
  Body until(std::initializer_list<std::string_view> ends, int opened = 0) {
    const Nesting nesting(depth_, in_.line());
    Body body;
    for (;;) {
      if (in_.is(Token::Kind::text)) {
        body.push_back(make(Statement::Kind::text));
        body.back().text = in_.take().text;
      } else if (in_.is(Token::Kind::begin_print)) {
        in_.take();
        body.push_back(make(Statement::Kind::print));
        body.back().value = checked(expressions_.tuple());
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

  Statement make(Statement::Kind kind) const {
    Statement out;
    out.kind = kind;
    out.line = in_.line();
    return out;
  }

  [[noreturn]] void unknown() const {
    const std::string& name = in_.peek().text;
    if (name == "autoescape")
      unsupported("the statement 'autoescape'", in_.line());
    mistake(
        fmt::format("the statement '{}' is none, or stands where nothing of its kind begins", name),
        in_.line());
  }

  Statement tag() {
    const int line = in_.line();
    for (const Tag& known : tags)
      if (in_.is_name(known.name)) {
        Statement out = (this->*known.read)();
        out.line = line;
        return out;
      }
    unknown();
  }
  void end_tag() { in_.expect(Token::Kind::end_block, "'%}'"); }
  /// Takes the end of a tag that a body follows; there may be a colon before it, as in Python.
  void begin_body() {
    in_.take_symbol(":");
    end_tag();
  }

  /// Refuses names of filters and tests that do not exist, except directly in an if: a template may
  /// first ask whether they exist.
  ExpressionRef checked(ExpressionRef e) const {
    check_names(*e, within_choice_);
    return e;
  }
  static void check_names(const Expression& e, bool asked) {
    using Is = Expression::Kind;
    const bool filter = e.kind == Is::filter;
    if (!asked && (filter || e.kind == Is::test) && !(filter ? is_filter(e.text) : is_test(e.text)))
      mistake(fmt::format("there is no {} '{}'", filter ? "filter" : "test", e.text), e.line);
    asked = asked || e.kind == Is::conditional;
    for (const ExpressionRef& part : e.parts)
      if (part)
        check_names(*part, asked);
    for (const auto& [name, part] : e.named)
      check_names(*part, asked);
    for (const ExpressionRef* part : {&e.rest, &e.named_rest})
      if (*part)
        check_names(**part, asked);
  }

  Statement choice() {
    const int line = in_.line();
    const bool around = std::exchange(within_choice_, true);
    Statement out = make(Statement::Kind::choice);
    for (bool more = true; more;) {
      const bool otherwise = in_.take().text == "else";
      Statement::Branch branch;
      if (!otherwise)
        branch.condition = checked(expressions_.choice_tuple());
      begin_body();
      branch.body = otherwise ? until({"endif"}, line) : until({"elif", "else", "endif"}, line);
      out.branches.push_back(std::move(branch));
      more = !in_.is_name("endif");
    }
    in_.take();
    end_tag();
    within_choice_ = around;
    return out;
  }

  Statement loop() {
    Statement out = make(Statement::Kind::loop);
    in_.take();
    ++loops_around_;
    out.target = target(false);
    if (!in_.take_name("in"))
      in_.unexpected("'in'");
    out.value = checked(expressions_.choice_tuple());
    const bool around = std::exchange(within_choice_, false);
    if (in_.take_name("if"))
      out.condition = checked(expressions_.expression());
    out.flag = in_.take_name("recursive");
    begin_body();
    ++loops_;
    out.body = until({"else", "endfor"}, out.line);
    --loops_;
    if (in_.take_name("else")) {
      begin_body();
      out.otherwise = until({"endfor"}, out.line);
    }
    in_.take();
    end_tag();
    within_choice_ = around;
    --loops_around_;
    return out;
  }

  Statement turn() {
    const bool leaves = in_.take().text == "break";
    if (loops_ == 0)
      mistake(fmt::format("{} stands outside of any loop", leaves ? "break" : "continue"),
              in_.line());
    Statement out = make(leaves ? Statement::Kind::leave : Statement::Kind::next);
    end_tag();
    return out;
  }

  /// Reads names with commas between them, each of which may be several in parentheses, or a
  /// namespace's member.
  Target target(bool members) {
    Target first = in_.is_symbol(")") ? Target{{}, {}, true, {}} : target_part(members);
    if (!in_.is_symbol(","))
      return first;
    Target out;
    out.several = true;
    out.parts.push_back(std::move(first));
    while (in_.take_symbol(",") && !in_.is_symbol(")") && !in_.is_symbol("=") && !in_.is_name("in"))
      out.parts.push_back(target_part(members));
    return out;
  }
  Target target_part(bool members) {
    const Nesting nesting(depth_, in_.line());
    Target out;
    if (in_.take_symbol("(")) {
      out = target(false);
      in_.expect_symbol(")");
      return out;
    }
    out.name = in_.expect_name();
    if (members && in_.take_symbol("."))
      out.member = in_.expect_name();
    else
      check_assignable(out.name);
    return out;
  }
  void check_assignable(const std::string& name) const {
    for (const char* constant : {"true", "false", "none", "True", "False", "None"})
      if (name == constant)
        mistake(fmt::format("nothing can be assigned to {}", name), in_.line());
    if (loops_around_ > 0 && name == "loop")
      mistake("nothing can be assigned to loop within a loop", in_.line());
  }

  Statement set() {
    Statement out = make(Statement::Kind::set);
    in_.take();
    out.target = target(true);
    if (in_.take_symbol("=")) {
      out.value = checked(expressions_.tuple());
      end_tag();
      return out;
    }
    out.kind = Statement::Kind::capture;
    if (in_.take_symbol("|"))
      out.value = filters();
    out.body = whole_body("endset", out.line, loops_);
    return out;
  }

  /// Reads filters whose subject has a name that no template can use.
  ExpressionRef filters() {
    auto subject = std::make_unique<Expression>();
    subject->kind = Expression::Kind::name;
    subject->line = in_.line();
    ExpressionRef out = expressions_.filters(std::move(subject), true);
    check_names(*out, false);
    return out;
  }

  /// loops: the number of loops around it that break and continue in the body can mean.
  Body body_to(std::string_view end, int line, int loops = 0) {
    const int loops_outside = std::exchange(loops_, loops);
    const bool around = std::exchange(within_choice_, false);
    Body body = until({end}, line);
    loops_ = loops_outside;
    within_choice_ = around;
    in_.take();
    return body;
  }
  Body whole_body(std::string_view end, int line, int loops = 0) {
    begin_body();
    Body body = body_to(end, line, loops);
    end_tag();
    return body;
  }

  void signature(Statement& of) {
    const bool around = std::exchange(within_choice_, false);
    in_.expect_symbol("(");
    while (!in_.is_symbol(")")) {
      if (!of.parameters.empty())
        in_.expect_symbol(",");
      std::string name = in_.expect_name();
      check_assignable(name);
      const bool has_default = in_.take_symbol("=");
      if (!has_default && !of.parameters.empty() && of.parameters.back().second)
        mistake("a parameter without a default follows one with a default", in_.line());
      of.parameters.emplace_back(std::move(name),
                                 has_default ? checked(expressions_.expression()) : nullptr);
    }
    in_.expect_symbol(")");
    within_choice_ = around;
  }
  /// Reads the body of a macro, and notes which of the special names it mentions.
  void macro_body(Statement& of, std::string_view end) {
    auto mentioned = std::exchange(expressions_.mentioned(), {});
    of.body = whole_body(end, of.line);
    for (const char* name : {"varargs", "kwargs", "caller"}) {
      const auto same = [&](const auto& parameter) { return parameter.first == name; };
      const bool own = std::any_of(of.parameters.begin(), of.parameters.end(), same);
      if (expressions_.mentioned().contains(name) && !own)
        of.catches.emplace_back(name);
    }
    expressions_.mentioned().merge(mentioned);
  }

  Statement macro() {
    Statement out = make(Statement::Kind::macro);
    in_.take();
    out.text = in_.expect_name();
    check_assignable(out.text);
    signature(out);
    macro_body(out, "endmacro");
    return out;
  }

  Statement call() {
    Statement out = make(Statement::Kind::call);
    in_.take();
    if (in_.is_symbol("("))
      signature(out);
    out.value = checked(expressions_.expression());
    if (out.value->kind != Expression::Kind::call)
      mistake("a call block calls nothing", in_.line());
    macro_body(out, "endcall");
    return out;
  }

  Statement filter() {
    Statement out = make(Statement::Kind::filter);
    in_.take();
    out.value = filters();
    out.body = whole_body("endfilter", out.line, loops_);
    return out;
  }

  Statement with() {
    Statement out = make(Statement::Kind::with);
    in_.take();
    while (!in_.is(Token::Kind::end_block) && !in_.is_symbol(":")) {
      if (!out.with.empty())
        in_.expect_symbol(",");
      Target to = target_part(false);
      in_.expect_symbol("=");
      out.with.emplace_back(std::move(to), checked(expressions_.expression()));
    }
    out.body = whole_body("endwith", out.line, loops_);
    return out;
  }

  Statement generation() {
    Statement out = make(Statement::Kind::scoped);
    in_.take();
    out.body = whole_body("endgeneration", out.line);
    return out;
  }

  Statement block() {
    Statement out = make(Statement::Kind::block);
    in_.take();
    out.text = in_.expect_name();
    if (!blocks_.insert(out.text).second)
      mistake(fmt::format("the block '{}' is defined twice", out.text), in_.line());
    out.flag = in_.take_name("scoped");
    if (in_.is_name("required"))
      unsupported("a required block", in_.line());
    begin_body();
    out.body = body_to("endblock", out.line);
    in_.take_name(out.text);
    end_tag();
    return out;
  }

  Statement print() {
    Statement out = make(Statement::Kind::choice);
    in_.take();
    Statement::Branch all;
    while (!in_.is(Token::Kind::end_block)) {
      if (!all.body.empty())
        in_.expect_symbol(",");
      all.body.push_back(make(Statement::Kind::print));
      all.body.back().value = checked(expressions_.expression());
    }
    out.branches.push_back(std::move(all));
    end_tag();
    return out;
  }

  /// Reads a statement that needs another template, which does not exist.
  Statement absent() {
    Statement out = make(Statement::Kind::absent);
    out.text = in_.take().text;
    while (!in_.is(Token::Kind::end_block) && !in_.is(Token::Kind::end))
      in_.take();
    end_tag();
    return out;
  }

  struct Tag {
    std::string_view name;
    Statement (Parser::*read)();
  };
  static const std::array<Tag, 16> tags;

  TokenReader in_;
  ExpressionParser expressions_{in_};
  std::set<std::string, std::less<>> blocks_;
  int depth_ = 0;
  int loops_ = 0;        ///< Loops that break and continue can mean.
  int loops_around_ = 0; ///< All loops around this place.
  bool within_choice_ = false;
};

constexpr std::array<Parser::Tag, 16> Parser::tags{{{"if", &Parser::choice},
                                                    {"for", &Parser::loop},
                                                    {"set", &Parser::set},
                                                    {"macro", &Parser::macro},
                                                    {"call", &Parser::call},
                                                    {"filter", &Parser::filter},
                                                    {"with", &Parser::with},
                                                    {"block", &Parser::block},
                                                    {"generation", &Parser::generation},
                                                    {"print", &Parser::print},
                                                    {"break", &Parser::turn},
                                                    {"continue", &Parser::turn},
                                                    {"include", &Parser::absent},
                                                    {"import", &Parser::absent},
                                                    {"from", &Parser::absent},
                                                    {"extends", &Parser::absent}}};

} // namespace

Template parse_template(std::string name, std::string_view source) {
  return Parser(source).run(std::move(name));
}

} // namespace paceline::text::jinja
