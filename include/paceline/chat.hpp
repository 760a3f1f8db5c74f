// A conversation, as chat models know it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paceline {

/// Names that a chat template may look for, each with its value as JSON: {"enable_thinking",
/// "false"}.
using TemplateVariables = std::vector<std::pair<std::string, std::string>>;

/// What somebody said. Both texts are UTF-8.
struct ChatMessage {
  std::string
      role{}; ///< "system", "user", "assistant", or what the model's template knows besides.
  std::string content{};
  /// Whatever else the template may look for in a message: {"reasoning_content", "\"because\""}.
  /// One of the names above goes before what is said there: {"content", "null"}.
  TemplateVariables fields{};
};

/// How a conversation becomes a prompt. The names are those of transformers.
struct ChatOptions {
  bool add_generation_prompt = true; ///< Ends with what opens the answer.
  /// Ends with the last message, which the answer goes on with; in place of what opens one. An
  /// error where the template does not keep the message as it is.
  bool continue_final_message = false;
  /// Of the tokens: with what the tokenizer adds to a text, such as a BOS. Templates write theirs.
  bool add_special_tokens = false;
  /// What the template may name besides (Qwen 3's enable_thinking).
  TemplateVariables variables{};
};

} // namespace paceline
