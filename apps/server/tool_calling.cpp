#include "apps/server/tool_calling.hpp"

#include <fmt/format.h>

namespace paceline::apps::serve {
namespace {

using Body = text::ToolFormat::Body;
using Calls = constraints::AnswerPlan::Calls;

ApiError cannot(std::string_view field, std::string_view why) {
  return {.status = 400,
          .message = fmt::format("{} {}", field, why),
          .param = std::string(field),
          .code = "unsupported_parameter"};
}

bool must_call(const Asked& asked) {
  return asked.tools.callable() && asked.tools.choice == Tools::Choice::required;
}

/// Whether a call is a name and its arguments, with special tokens around the name.
bool names_between_marks(const ChatStyle& style) {
  if (style.tools->body == Body::channel)
    return style.special_opening;
  return style.special_arguments && style.tools->body == Body::named && !style.tools->in_list;
}

bool has_channels(const ChatStyle& style) {
  return style.reasoning && style.reasoning->channels;
}

/// Returns why the form cannot stand beside calls.
std::optional<ApiError> check_form_beside(const ChatStyle& style, const Asked& asked) {
  const auto& form = asked.request.constraint;
  if (!form)
    return std::nullopt;
  if (must_call(asked))
    return invalid_value(asked.form_field,
                         asked.form_field + " must be left out where tool_choice asks for a call");
  const bool special = style.special_opening && !style.tools->bare;
  if (special || !constraints::has_form(*style.tools) ||
      form->kind == Constraint::Kind::structural_tag)
    return cannot(asked.form_field, "is not supported beside tools with this model: leave one "
                                    "of them out, or tool_choice \"none\"");
  return std::nullopt;
}

} // namespace

std::optional<ApiError> check_tools(const ChatStyle& style, const Asked& asked) {
  if (!asked.tools.callable())
    return std::nullopt;
  if (!style.shows_tools)
    return cannot("tools", "is not supported by this model: its chat template shows it none");
  if (!style.tools)
    return cannot("tools", "is not supported by this model: how it writes calls is not known "
                           "here (the server's --tool-call-parser may say it)");
  if (must_call(asked) && !constraints::has_form(*style.tools))
    return cannot("tool_choice", "cannot ask this model for a call: leave the choice to it");
  if (must_call(asked) && names_between_marks(style) && asked.tools.functions.size() > 1)
    return cannot("tool_choice", "cannot ask this model for a call of any function: name one, "
                                 "or leave the choice to it");
  return check_form_beside(style, asked);
}

bool opens_reasoning(const ChatStyle& style, std::string_view rendered) {
  const auto end = rendered.find_last_not_of(" \t\r\n");
  return style.reasoning && end != std::string_view::npos &&
         rendered.substr(0, end + 1).ends_with(style.reasoning->opening);
}

std::string forced_opening(const ChatStyle& style, const Asked& asked) {
  if (!must_call(asked) && has_channels(style) && style.special_reasoning &&
      asked.request.constraint)
    return "<|channel|>final<|message|>";
  if (!must_call(asked) || !style.special_opening || style.tools->bare)
    return {};
  std::string opening(style.tools->opening);
  const std::string& name = asked.tools.functions.front().name;
  if (style.tools->body == Body::channel)
    return opening + "commentary to=functions." + name + " <|constrain|>json<|message|>";
  if (names_between_marks(style))
    opening += name + std::string(arguments_mark);
  return opening;
}

constraints::AnswerPlan plan_of(const ChatStyle& style, const Asked& asked, bool in_reasoning) {
  constraints::AnswerPlan plan;
  if (asked.tools.callable()) {
    plan.calls = must_call(asked) ? Calls::required : Calls::allowed;
    plan.tools = style.tools;
    plan.functions = asked.tools.functions;
    plan.several = asked.tools.parallel;
    plan.opened = !forced_opening(style, asked).empty();
  }
  plan.form = asked.request.constraint;
  // A form contains no special tokens, so reasoning between such marks is left out where one is
  // asked for.
  const bool held = plan.calls == Calls::required || plan.form;
  if (!style.special_reasoning)
    plan.reasoning = style.reasoning;
  plan.in_reasoning = in_reasoning && !(style.special_reasoning && held);
  if (plan.calls == Calls::allowed)
    constraints::loosen(plan.functions, false);
  // A form that nobody asked for would only be in the way of how the client ends the answer.
  const bool ends_anyhow = asked.request.ignore_eos || !asked.request.stop_token_ids.empty();
  // Nor can one hold calls that special tokens open, if the model need not make any.
  const bool unseen = style.special_opening && plan.calls == Calls::allowed;
  plan.free = (ends_anyhow || unseen) && plan.calls != Calls::required && !plan.form;
  return plan;
}

bool has_parts(const ChatStyle& style, const Asked& asked) {
  return asked.tools.callable() || style.reasoning;
}

AnswerReader answer_reader(const ChatStyle& style, const Asked& asked,
                           const constraints::AnswerPlan& plan, const std::string& opening,
                           std::string seed) {
  const text::ToolFormat* tools = asked.tools.callable() ? style.tools : nullptr;
  AnswerReader reader(
      {.tools = tools,
       .functions = tools ? asked.tools.functions : std::vector<text::ToolFunction>(),
       .reasoning = opening.empty() || has_channels(style) ? style.reasoning : nullptr,
       .in_reasoning = plan.in_reasoning},
      std::move(seed), tools && tools->body == Body::named);
  reader.begin(opening);
  return reader;
}

} // namespace paceline::apps::serve
