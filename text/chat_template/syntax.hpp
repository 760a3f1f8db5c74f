// The syntax tree of a template.
#pragma once

#include "text/chat_template/value.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace paceline::text::jinja {

struct Expression;
using ExpressionRef = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    constant, ///< value
    name,     ///< text
    list,     ///< parts
    tuple,    ///< parts
    dict,     ///< key, value, key, value ...
    member,   ///< parts[0].text
    item,     ///< parts[0][parts[1]]
    slice,    ///< parts[0][parts[1] : parts[2] : parts[3]], of which all but the first may be null
    call,     ///< parts[0](parts[1] ..., named)
    filter,   ///< parts[0] | text(parts[1] ..., named)
    test,     ///< parts[0] is text(parts[1] ..., named)
    negation, ///< not parts[0]
    sign,     ///< text ("+", "-") parts[0]
    arithmetic,  ///< parts[0] text parts[1]
    comparison,  ///< parts[0] words[0] parts[1] words[1] parts[2] ...
    all,         ///< parts[0] and parts[1] ...
    any,         ///< parts[0] or parts[1] ...
    join,        ///< parts[0] ~ parts[1] ...
    conditional, ///< parts[1] if parts[0] else parts[2], which may be null
  };
  Kind kind = Kind::constant;
  int line = 1;
  int depth = 1; ///< Depth of the tree from here on.
  std::string text;
  Value value;
  std::vector<ExpressionRef> parts;
  std::vector<std::pair<std::string, ExpressionRef>> named;
  ExpressionRef rest;       ///< The *rest of a call, or null.
  ExpressionRef named_rest; ///< The **named_rest of a call, or null.
  std::vector<std::string> words;
};

/// The target of an assignment: a name, a namespace's member, or several targets, which share a
/// list's items.
struct Target {
  std::string name;
  std::string member;
  bool several = false;
  std::vector<Target> parts;
};

using Body = std::vector<Statement>;

struct Statement {
  enum class Kind {
    text,    ///< text
    print,   ///< value
    choice,  ///< The first of `branches` whose condition holds
    loop,    ///< for target in value if condition: body, else otherwise; `flag`: recursive
    set,     ///< target = value
    capture, ///< target = what body prints, filtered by `value` if there is one
    macro,   ///< text(parameters): body
    call,    ///< value, a call whose `caller` is the macro (parameters): body
    filter,  ///< what body prints, filtered by `value`
    with,    ///< body, where the targets of `with` have their values
    scoped,  ///< body, in a scope of its own
    block,   ///< body, named text, which sees outer names if `flag`
    absent,  ///< A statement that needs other files: text
    leave,   ///< break
    next,    ///< continue
  };
  struct Branch;

  Kind kind = Kind::text;
  int line = 1;
  std::string text;
  ExpressionRef value;
  ExpressionRef condition;
  Target target;
  std::vector<Branch> branches;
  std::vector<std::pair<std::string, ExpressionRef>> parameters; ///< Names with defaults, or null.
  std::vector<std::string> catches; ///< "varargs", "kwargs", "caller", if a macro uses them.
  std::vector<std::pair<Target, ExpressionRef>> with;
  bool flag = false;
  Body body;
  Body otherwise;
};

struct Statement::Branch {
  ExpressionRef condition; ///< Null: this is the else.
  Body body;
};

/// A template that was parsed.
struct Template {
  std::string name;
  Body body;
};

} // namespace paceline::text::jinja
