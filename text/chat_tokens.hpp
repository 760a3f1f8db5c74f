// A conversation as a chat model reads it: its template's special tokens, and users' text as text.
#pragma once

#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

#include <ctime>
#include <span>
#include <string>
#include <vector>

namespace paceline::text {

/// What the template renders. Errors: as ChatTemplate::render, and what ChatOptions says.
Result<std::string> chat_text(const ChatTemplate& chat, std::span<const ChatMessage> messages,
                              const std::tm& now, const ChatOptions& how);

/// The tokens of that. A special token that a message or a variable spells is text, so that nobody
/// ends a turn, or begins another's, by what they say.
Result<std::vector<TokenId>> chat_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatMessage> messages, const std::tm& now,
                                         const ChatOptions& how);

} // namespace paceline::text
