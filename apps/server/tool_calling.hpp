// What an answer that may call functions is held to, and what is refused because nothing can hold
// it.
#pragma once

#include "apps/server/answer_reader.hpp"
#include "apps/server/chat_style.hpp"
#include "apps/server/openai_request.hpp"
#include "constraints/tool_form.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace paceline::apps::serve {

/// Returns why the model's answers cannot have the calls that are asked for, or not in the form
/// asked for beside them; none: they can.
std::optional<ApiError> check_tools(const ChatStyle& style, const Asked& asked);

/// Whether a rendered conversation ends with what opens reasoning.
bool opens_reasoning(const ChatStyle& style, std::string_view rendered);

/// Returns the beginning of an answer that must have calls, or a form, if it is special tokens: no
/// form contains them, so they become the prompt's end. Empty: there is none.
std::string forced_opening(const ChatStyle& style, const Asked& asked);

/// in_reasoning: the prompt opens it.
constraints::AnswerPlan plan_of(const ChatStyle& style, const Asked& asked, bool in_reasoning);

/// Whether an answer may be more than content.
bool has_parts(const ChatStyle& style, const Asked& asked);

/// Returns what takes an answer apart. opening: the part of it that is the prompt's end. seed:
/// AnswerReader's.
AnswerReader answer_reader(const ChatStyle& style, const Asked& asked,
                           const constraints::AnswerPlan& plan, const std::string& opening,
                           std::string seed);

} // namespace paceline::apps::serve
