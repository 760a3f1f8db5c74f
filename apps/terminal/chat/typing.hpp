// What is typed into a chat: commands, and the results of calls.
#pragma once

#include "apps/terminal/chat/command.hpp"
#include "apps/terminal/chat/lines.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <optional>
#include <string>

namespace paceline::apps {

/// Puts lines together to commands and results.
class Typing {
public:
  explicit Typing(std::unique_ptr<LineSource> source) : source_(std::move(source)) {}

  /// Returns the next command. None: the chat is over. Errors: a line that is no command.
  Result<std::optional<ChatCommand>> command();
  /// Returns the result of a call of this function; where the user has none, a text that says so.
  /// None: the calls are abandoned, or the input has ended.
  std::optional<std::string> result(const std::string& function);

private:
  std::optional<ChatCommand> rest();

  std::unique_ptr<LineSource> source_;
  MessageReader message_;
};

} // namespace paceline::apps
