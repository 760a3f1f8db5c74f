// Implements `subject | name(...)`.
#include "text/chat_template/filters.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text::jinja {
namespace {

const Filter* find_filter(std::string_view name) {
  for (const auto& table : {text_filters, item_filters, number_filters}) {
    const auto filter =
        std::find_if(table.begin(), table.end(), [&](const Filter& f) { return f.name == name; });
    if (filter != table.end())
      return &*filter;
  }
  return nullptr;
}

} // namespace

bool is_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

Value apply_filter(Interpreter& at, const std::string& name, const Value& subject,
                   Arguments& arguments) {
  const Filter* filter = find_filter(name);
  if (!filter)
    mistake(fmt::format("there is no filter '{}'", name));
  if (!filter->apply)
    unsupported(fmt::format("the filter '{}'", name));
  at.budget().spend();
  Value out = filter->apply(at, subject, arguments);
  arguments.finish();
  return out;
}

} // namespace paceline::text::jinja
