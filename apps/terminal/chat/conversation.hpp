// The messages of a chat, and the file they are kept in.
#pragma once

#include "paceline/chat.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

struct Conversation {
  std::string system; ///< Empty: no system message.
  std::vector<ChatMessage> turns;

  /// Returns all messages, as a chat template takes them.
  std::vector<ChatMessage> messages() const;
};

/// Returns {"format": "paceline-chat-1", "system": "...", "messages": [{"role", "content"}, ...]}.
std::string to_json(const Conversation& conversation);
/// Reads that. name: the file's, for messages.
Result<Conversation> conversation_from_json(const std::string& name, const std::string& text);

/// Writes to a temporary file beside `path` and renames it, so that no half-written file is left.
Result<void> save(const Conversation& conversation, const std::string& path);
Result<Conversation> load(const std::string& path);

} // namespace paceline::apps
