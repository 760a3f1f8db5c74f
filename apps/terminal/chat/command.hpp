// The commands that can be typed into `paceline chat`.
#pragma once

#include "paceline/error.hpp"

#include <span>
#include <string>
#include <string_view>

namespace paceline::apps {

struct ChatCommand {
  enum class Kind {
    say, ///< Text to the model, in `argument`.
    help,
    reset,
    retry,
    edit,
    system,
    model,
    speculation,
    window,
    verify,
    temperature,
    seed,
    number, ///< Another number of a request, whose name begins `argument`; only `/set` has it.
    set,    ///< Set one of the settings by its name, or show all of them.
    context_shift,
    stats,
    save,
    load,
    quit,
  };
  Kind kind = Kind::say;
  std::string argument; ///< Text behind the command's name, without white space around it.
};

struct ChatCommandName {
  ChatCommand::Kind kind;
  std::string_view name;     ///< "/help"
  std::string_view argument; ///< Argument as help shows it; empty: the command takes none.
  std::string_view help;
};
std::span<const ChatCommandName> chat_commands();
/// Whether this command is a setting of the next requests, which `/set` knows by its name, too.
bool is_setting(ChatCommand::Kind kind);
/// Returns a line for each command; more if it is wider than `columns`.
std::string chat_help(int columns);

/// Parses a line. One that begins with "/" is a command, by its name or a beginning of it that no
/// other has; one that begins with "//" is said with one "/" less. Any other line is said.
Result<ChatCommand> parse_chat_line(std::string_view line);

} // namespace paceline::apps
