// What an answer that may call functions is held to, and what takes it apart.
#pragma once

#include "apps/console/chat/answer_reader.hpp"
#include "apps/console/chat/chat_style.hpp"
#include "apps/console/chat/tool_list.hpp"
#include "constraints/tool_form.hpp"
#include "paceline/request.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace paceline::apps {

/// Returns why functions cannot be had with a model; empty: they can.
std::string_view why_no_tools(const ChatStyle& style);

/// Whether an answer may have calls, or else this form.
bool has_form_beside_calls(const ChatStyle& style, const Constraint& form);

/// Whether an answer that must have calls can have those of one function only, since special tokens
/// stand around its name.
bool calls_one_function(const ChatStyle& style);

/// Whether a rendered conversation ends with what opens reasoning.
bool opens_reasoning(const ChatStyle& style, std::string_view rendered);

/// Returns the beginning of an answer that must have calls, or the request's form, if it is special
/// tokens: no form contains them, so they become the prompt's end. Empty: there is none.
std::string forced_opening(const ChatStyle& style, const Tools& tools, const Request& request);

/// in_reasoning: the prompt opens it.
constraints::AnswerPlan plan_of(const ChatStyle& style, const Tools& tools, const Request& request,
                                bool in_reasoning);

/// Returns the form of the plan's answers; none: they are held to nothing. Where calls are the
/// model's choice, schemas that together are too much do not count, unless they are strict.
Result<std::optional<Constraint>> held_form(constraints::AnswerPlan& plan);

/// Returns the form of the same answers where nothing can hold them to that one: of calls that are
/// the model's choice the schemas do not count. None: there is no other.
std::optional<Constraint> looser_form(constraints::AnswerPlan& plan);

/// Whether an answer may be more than content.
bool has_parts(const ChatStyle& style, const Tools& tools);

/// Returns what takes an answer apart. opening: the part of it that is the prompt's end. seed:
/// AnswerReader's.
AnswerReader answer_reader(const ChatStyle& style, const Tools& tools,
                           const constraints::AnswerPlan& plan, const std::string& opening,
                           std::string seed);

} // namespace paceline::apps
