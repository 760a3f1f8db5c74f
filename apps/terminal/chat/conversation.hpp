// What was said in a chat, and the file it is kept in.
#pragma once

#include "paceline/chat.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

struct Conversation {
  std::string system; ///< Empty: nothing.
  std::vector<ChatMessage> turns;

  /// All of it, as a chat template takes it.
  std::vector<ChatMessage> messages() const;
};

/// JSON: {"format": "paceline-chat-1", "system": "...", "messages": [{"role", "content"}, ...]}
std::string to_json(const Conversation& conversation);
/// name: of the file, for messages.
Result<Conversation> conversation_from_json(const std::string& name, const std::string& text);

/// Writes to a temporary beside `path` and renames it: nothing half-written is left.
Result<void> save(const Conversation& conversation, const std::string& path);
Result<Conversation> load(const std::string& path);

} // namespace paceline::apps
