#include "apps/console/chat/answer_plan.hpp"

#include <utility>
#include <vector>

namespace paceline::apps {
namespace {

using Body = text::ToolFormat::Body;
using Calls = constraints::AnswerPlan::Calls;

bool must_call(const Tools& tools) {
  return tools.callable() && tools.choice == Tools::Choice::required;
}

bool has_channels(const ChatStyle& style) {
  return style.reasoning && style.reasoning->channels;
}

} // namespace

std::string_view why_no_tools(const ChatStyle& style) {
  if (!style.shows_tools)
    return "its chat template shows it none";
  if (!style.tools)
    return "how it writes calls is not known here";
  return {};
}

bool has_form_beside_calls(const ChatStyle& style, const Constraint& form) {
  const bool special = style.special_opening && !style.tools->bare;
  return !special && constraints::has_form(*style.tools) &&
         form.kind != Constraint::Kind::structural_tag;
}

bool calls_one_function(const ChatStyle& style) {
  if (style.tools->body == Body::channel)
    return style.special_opening;
  return style.special_arguments && style.tools->body == Body::named && !style.tools->in_list;
}

bool opens_reasoning(const ChatStyle& style, std::string_view rendered) {
  const auto end = rendered.find_last_not_of(" \t\r\n");
  return style.reasoning && end != std::string_view::npos &&
         rendered.substr(0, end + 1).ends_with(style.reasoning->opening);
}

std::string forced_opening(const ChatStyle& style, const Tools& tools, const Request& request) {
  if (!must_call(tools) && has_channels(style) && style.special_reasoning && request.constraint)
    return "<|channel|>final<|message|>";
  if (!must_call(tools) || !style.special_opening || style.tools->bare)
    return {};
  std::string opening(style.tools->opening);
  const std::string& name = tools.functions.front().name;
  if (style.tools->body == Body::channel)
    return opening + "commentary to=functions." + name + " <|constrain|>json<|message|>";
  if (calls_one_function(style))
    opening += name + std::string(arguments_mark);
  return opening;
}

constraints::AnswerPlan plan_of(const ChatStyle& style, const Tools& tools, const Request& request,
                                bool in_reasoning) {
  constraints::AnswerPlan plan;
  if (tools.callable()) {
    plan.calls = must_call(tools) ? Calls::required : Calls::allowed;
    plan.tools = style.tools;
    plan.functions = tools.functions;
    plan.several = tools.parallel;
    plan.opened = !forced_opening(style, tools, request).empty();
  }
  plan.form = request.constraint;
  // A form contains no special tokens, so reasoning between such marks is left out where one is
  // asked for.
  const bool held = plan.calls == Calls::required || plan.form;
  if (!style.special_reasoning)
    plan.reasoning = style.reasoning;
  plan.in_reasoning = in_reasoning && !(style.special_reasoning && held);
  if (plan.calls == Calls::allowed)
    constraints::loosen(plan.functions, false);
  // A form that nobody asked for would only be in the way of how the client ends the answer.
  const bool ends_anyhow = request.ignore_eos || !request.stop_token_ids.empty();
  // Nor can one hold calls that special tokens open, if the model need not make any.
  const bool unseen = style.special_opening && plan.calls == Calls::allowed;
  plan.free = (ends_anyhow || unseen) && plan.calls != Calls::required && !plan.form;
  return plan;
}

Result<std::optional<Constraint>> held_form(constraints::AnswerPlan& plan) {
  auto form = constraints::form_of(plan);
  if (form || plan.calls != Calls::allowed)
    return form;
  constraints::loosen(plan.functions, true);
  return constraints::form_of(plan);
}

std::optional<Constraint> looser_form(constraints::AnswerPlan& plan) {
  if (plan.calls != Calls::allowed)
    return std::nullopt;
  constraints::loosen(plan.functions, true);
  return constraints::form_of(plan).value(); // It is no longer than the one before.
}

bool has_parts(const ChatStyle& style, const Tools& tools) {
  return tools.callable() || style.reasoning;
}

AnswerReader answer_reader(const ChatStyle& style, const Tools& tools,
                           const constraints::AnswerPlan& plan, const std::string& opening,
                           std::string seed) {
  const text::ToolFormat* format = tools.callable() ? style.tools : nullptr;
  AnswerReader reader(
      {.tools = format,
       .functions = format ? tools.functions : std::vector<text::ToolFunction>(),
       .reasoning = opening.empty() || has_channels(style) ? style.reasoning : nullptr,
       .in_reasoning = plan.in_reasoning},
      std::move(seed), format && format->body == Body::named);
  reader.begin(opening);
  return reader;
}

} // namespace paceline::apps
