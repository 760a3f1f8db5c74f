// A conversation in the form that a chat model reads: special tokens of its template, and users'
// text as text.
#pragma once

#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

#include <ctime>
#include <span>
#include <string>
#include <vector>

namespace paceline::text {

/// Returns what the template renders. Errors: those of ChatTemplate::render, and those that
/// ChatOptions names.
Result<std::string> chat_text(const ChatTemplate& chat, std::span<const ChatMessage> messages,
                              const std::tm& now, const ChatOptions& how);

/// Returns the tokens of that text. A special token that a message or a variable spells is text, so
/// that nobody can end a turn, or begin another's, by what they say.
Result<std::vector<TokenId>> chat_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatMessage> messages, const std::tm& now,
                                         const ChatOptions& how);

} // namespace paceline::text
