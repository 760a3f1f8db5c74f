#include "text/chat_template/names.hpp"

#include "text/chat_template/interpreter.hpp"

#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

void check(const ExpressionRef& expression) {
  using enum Expression::Kind;
  if (!expression || expression->kind == conditional)
    return;
  if (expression->kind == filter && !knows_filter(expression->text))
    unsupported(fmt::format("the filter '{}'", expression->text), expression->line);
  if (expression->kind == test && !knows_test(expression->text))
    unsupported(fmt::format("the test '{}'", expression->text), expression->line);
  for (const ExpressionRef& part : expression->parts)
    check(part);
  for (const auto& [name, value] : expression->named)
    check(value);
}

void check(const Body& body) {
  for (const Statement& statement : body) {
    if (statement.kind == Statement::Kind::choice)
      continue;
    check(statement.value);
    check(statement.condition);
    for (const auto& [name, value] : statement.parameters)
      check(value);
    check(statement.body);
    check(statement.otherwise);
  }
}

} // namespace

void check_names(const Template& source) {
  check(source.body);
}

} // namespace paceline::text::jinja
