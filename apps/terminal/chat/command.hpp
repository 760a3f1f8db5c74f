// What a line typed into `paceline chat` asks for.
#pragma once

#include "paceline/error.hpp"

#include <span>
#include <string>
#include <string_view>

namespace paceline::apps {

struct ChatCommand {
  enum class Kind {
    say, ///< To the model; `argument` is the text.
    help,
    reset,
    retry,
    system,
    model,
    speculation,
    window,
    verify,
    temperature,
    seed,
    set, ///< One of the settings by its name, or all of them.
    stats,
    save,
    load,
    quit,
  };
  Kind kind = Kind::say;
  std::string argument; ///< What follows the command's name, without white space around it.
};

struct ChatCommandName {
  ChatCommand::Kind kind;
  std::string_view name;     ///< "/help"
  std::string_view argument; ///< As help shows it; empty: it takes none.
  std::string_view help;
};
std::span<const ChatCommandName> chat_commands();
/// Whether it is one of what `/set` sets: as the next answers are asked for.
bool is_setting(ChatCommand::Kind kind);
/// A line for each command; more where it is wider than `columns`.
std::string chat_help(int columns);

/// A line that begins with "/" is a command, by its name or a beginning of it that no other has;
/// one that begins with "//" is said with one "/" less. Whatever else is said.
Result<ChatCommand> parse_chat_line(std::string_view line);

} // namespace paceline::apps
