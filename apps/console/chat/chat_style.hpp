// How a model's conversations are written: what its chat template and its tokenizer say of calls of
// functions and of reasoning.
#pragma once

#include "paceline/engine.hpp"
#include "text/tool_format.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// Names of formats that the operator chose; none: the chat template says which. "none": there is
/// none.
struct ParserNames {
  std::optional<std::string> tools{};
  std::optional<std::string> reasoning{};
};

struct ChatStyle {
  /// What a template wants a call's arguments to be, in a conversation that goes on from it.
  enum class Arguments { any, objects, texts };

  const text::ToolFormat* tools = nullptr;          ///< Null: none that is known.
  const text::ReasoningFormat* reasoning = nullptr; ///< Null: the model does not think aloud.
  bool shows_tools = false; ///< Whether the template shows its model what it may call.
  Arguments arguments = Arguments::any;
  bool calls_reasoning_thinking = false; ///< It looks for a message's reasoning by this name.
  bool special_opening = false;          ///< The opening of calls is a special token.
  bool special_arguments = false;        ///< So is what stands between a name and its arguments.
  bool special_reasoning = false;        ///< So are the marks around reasoning.

  /// Whether the parser needs special tokens in the text.
  bool needs_special() const { return special_opening || special_arguments || special_reasoning; }
};

/// Mark between a call's name and its arguments, in ToolFormat::Body::named.
inline constexpr std::string_view arguments_mark = "[ARGS]";

ChatStyle style_of(const Engine& engine, const ParserNames& names);

/// Returns the messages as the template wants them: with the arguments of calls, of which clients
/// send texts, and most templates write JSON; and with the name of what the model thought.
std::vector<ChatMessage> as_template_wants(const ChatStyle& style,
                                           std::vector<ChatMessage> messages);

} // namespace paceline::apps
