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
    system,
    model,
    speculation,
    window,
    verify,
    temperature,
    seed,
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
/// One line for each command.
std::string chat_help();

/// A line that begins with "/" is a command, by its name or a beginning of it that no other has;
/// one that begins with "//" is said with one "/" less. Whatever else is said.
Result<ChatCommand> parse_chat_line(std::string_view line);

/// What completes a command's name that was begun, if one alone does; else empty.
std::string chat_completion(std::string_view begun);

} // namespace paceline::apps
