#include "apps/server/tool_refusals.hpp"

#include "apps/console/chat/answer_plan.hpp"

#include <fmt/format.h>
#include <string_view>

namespace paceline::apps::serve {
namespace {

ApiError cannot(std::string_view field, std::string_view why) {
  return {.status = 400,
          .message = fmt::format("{} {}", field, why),
          .param = std::string(field),
          .code = "unsupported_parameter"};
}

/// Returns why the form cannot stand beside calls.
std::optional<ApiError> check_form_beside(const ChatStyle& style, const Asked& asked) {
  const auto& form = asked.request.constraint;
  if (!form)
    return std::nullopt;
  if (asked.tools.choice == Tools::Choice::required)
    return invalid_value(asked.form_field,
                         asked.form_field + " must be left out where tool_choice asks for a call");
  if (!has_form_beside_calls(style, *form))
    return cannot(asked.form_field, "is not supported beside tools with this model: leave one "
                                    "of them out, or tool_choice \"none\"");
  return std::nullopt;
}

} // namespace

std::optional<ApiError> check_tools(const ChatStyle& style, const Asked& asked) {
  if (!asked.tools.callable())
    return std::nullopt;
  if (const auto why = why_no_tools(style); !why.empty())
    return cannot(
        "tools",
        fmt::format("is not supported by this model: {}{}", why,
                    style.shows_tools ? " (the server's --tool-call-parser may say it)" : ""));
  const bool must_call = asked.tools.choice == Tools::Choice::required;
  if (must_call && !constraints::has_form(*style.tools))
    return cannot("tool_choice", "cannot ask this model for a call: leave the choice to it");
  if (must_call && calls_one_function(style) && asked.tools.functions.size() > 1)
    return cannot("tool_choice", "cannot ask this model for a call of any function: name one, "
                                 "or leave the choice to it");
  return check_form_beside(style, asked);
}

} // namespace paceline::apps::serve
