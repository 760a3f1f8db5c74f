// A conversation in the form that chat models know.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paceline {

/// Names that a chat template may look for, each with its value as JSON: {"enable_thinking",
/// "false"}.
using TemplateVariables = std::vector<std::pair<std::string, std::string>>;

/// One message of a conversation. Both texts are UTF-8.
struct ChatMessage {
  std::string
      role{}; ///< "system", "user", "assistant", or another role that the model's template knows.
  std::string content{};
  /// Other fields that the template may look for in a message: {"reasoning_content",
  /// "\"because\""}. One that is called like a member above replaces it: {"content", "null"}.
  TemplateVariables fields{};
};

/// How a conversation becomes a prompt. The names are those of Hugging Face transformers.
struct ChatOptions {
  bool add_generation_prompt = true; ///< Ends the prompt with what opens the answer.
  /// Ends the prompt with the last message, which the answer continues, in place of what opens an
  /// answer. It is an error if the template does not keep the message as it is.
  bool continue_final_message = false;
  /// Adds the tokens that the tokenizer adds to a text, such as a BOS. Most templates write theirs.
  bool add_special_tokens = false;
  /// Further variables that the template may name (Qwen 3's enable_thinking).
  TemplateVariables variables{};
};

} // namespace paceline
