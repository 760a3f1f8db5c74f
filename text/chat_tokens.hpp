// A conversation as a chat model reads it: its template's special tokens, and users' text as text.
#pragma once

#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

#include <ctime>
#include <span>
#include <vector>

namespace paceline::text {

/// The tokens of what the template renders. A special token that a message or a variable spells is
/// text, so that nobody ends a turn, or begins another's, by what they say. Errors: as
/// ChatTemplate::render.
Result<std::vector<TokenId>> chat_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatMessage> messages,
                                         bool add_generation_prompt, const std::tm& now,
                                         const TemplateVariables& variables = {});

} // namespace paceline::text
