// The messages of a chat, and the file they are kept in.
#pragma once

#include "paceline/chat.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace paceline::apps {

struct Conversation {
  std::string system; ///< Empty: no system message.
  std::vector<ChatMessage> turns;
  std::size_t first_read = 0; ///< First turn that the model reads; no file keeps it.

  /// Returns what the model reads, as a chat template takes it.
  std::vector<ChatMessage> messages() const;
  /// Drops the oldest message that the model reads, and the answers to it, from what it reads.
  /// Returns the number of turns dropped; 0: it reads the last message only.
  std::size_t drop_oldest();
};

/// Returns {"format": "paceline-chat-1", "system": "...", "messages": [{"role", "content"}, ...]}.
std::string to_json(const Conversation& conversation);
/// Reads that. name: the file's, for messages.
Result<Conversation> conversation_from_json(const std::string& name, const std::string& text);

/// Writes to a temporary file beside `path` and renames it, so that no half-written file is left.
Result<void> save(const Conversation& conversation, const std::string& path);
Result<Conversation> load(const std::string& path);

} // namespace paceline::apps
