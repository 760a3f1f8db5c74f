// The form of an answer that may call functions, in the way in which a family of models writes
// calls, behind the model's reasoning.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"
#include "text/tool_format.hpp"

#include <optional>
#include <string>
#include <vector>

namespace paceline::constraints {

/// Whether there is a form of calls in this format.
bool has_form(const text::ToolFormat& format);

/// What an answer may and must have.
struct AnswerPlan {
  enum class Calls { none, allowed, required };

  Calls calls = Calls::none;
  const text::ToolFormat* tools = nullptr; ///< Set if calls are allowed or required.
  std::vector<text::ToolFunction> functions{};
  bool several = true; ///< Several calls may come.
  /// The prompt ends with what opens a list of calls, or with a call up to its arguments.
  bool opened = false;
  const text::ReasoningFormat* reasoning = nullptr; ///< Null: the answer does not begin with any.
  bool in_reasoning = false;                        ///< The prompt opens it.
  std::optional<Constraint> form{};                 ///< The form of an answer without calls.
  bool free = false; ///< No answer is held to anything, not even calls.
};

/// Returns the form, as a structural tag. None: any text is such an answer. Where calls are only
/// allowed, a text is held to nothing before it opens a call. Errors: invalid_argument for
/// functions whose form would cross limits::form_bytes_max by far; it is not made then.
Result<std::optional<Constraint>> form_of(const AnswerPlan& plan);

/// Whether form_of holds calls of this format to their schemas once they are opened.
bool holds_opened_calls(const text::ToolFormat& format);

/// Makes functions take any object that cannot be held to their schemas, unless they are strict.
/// all: those whose schemas are known to be held, too.
void loosen(std::vector<text::ToolFunction>& functions, bool all);

} // namespace paceline::constraints
