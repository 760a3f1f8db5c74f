#include "apps/terminal/chat/command.hpp"

#include "apps/console/screen_text.hpp"
#include "sampling/fields.hpp"
#include "text/blanks.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace paceline::apps {
namespace {

using Kind = ChatCommand::Kind;

constexpr ChatCommandName commands[] = {
    {Kind::help, "/help", "", "This list"},
    {Kind::reset, "/reset", "", "Forget the conversation; what the system says stays"},
    {Kind::reset, "/clear", "", "The same"},
    {Kind::retry, "/retry", "", "Answer what was said last once more"},
    {Kind::retry, "/regenerate", "", "The same"},
    {Kind::edit, "/edit", "TEXT", "Say this in place of what was said last"},
    {Kind::system, "/system", "[TEXT|none]", "What the system says first; alone: show it"},
    {Kind::model, "/model", "[DIR [DRAFT]]", "Show the models, or change to others"},
    {Kind::speculation, "/speculation", "[off|sync|overlap|auto]",
     "How draft and target work together"},
    {Kind::window, "/window", "[auto|K]", sampling::request_number("window").effect},
    {Kind::verify, "/verify", "[auto|rejection|coupled|match]", "How drafted tokens are judged"},
    {Kind::temperature, "/temperature", "[X|default]", "0: greedy; default: the model's own"},
    {Kind::seed, "/seed", "[N|random]", "Makes answers repeatable"},
    {Kind::set, "/set", "[NAME [VALUE]]", "A setting by its name, as /NAME VALUE; alone: all"},
    {Kind::context_shift, "/context-shift", "[on|off]",
     "Whether a full context lets the oldest messages go"},
    {Kind::stats, "/stats", "", "Figures of this session"},
    {Kind::save, "/save", "FILE", "Write the conversation to a file"},
    {Kind::load, "/load", "FILE", "Go on with a conversation from a file"},
    {Kind::quit, "/quit", "", "Leave, as Ctrl-D does"},
    {Kind::quit, "/exit", "", "The same"},
    {Kind::quit, "/bye", "", "The same"},
};

/// Returns the command with this name, or all whose names begin so.
std::vector<const ChatCommandName*> find(std::string_view begun) {
  std::vector<const ChatCommandName*> found;
  for (const ChatCommandName& command : commands) {
    if (command.name == begun)
      return {&command};
    if (command.name.starts_with(begun))
      found.push_back(&command);
  }
  return found;
}

tl::unexpected<Error> no_command(std::string_view name,
                                 const std::vector<const ChatCommandName*>& beginnings) {
  constexpr const char* hint = "/help lists them; // begins a line with a slash";
  if (beginnings.empty() || name == "/")
    return fail(ErrorCode::invalid_argument, fmt::format("there is no command {}", name), hint);
  std::vector<std::string_view> names;
  for (const ChatCommandName* each : beginnings)
    names.push_back(each->name);
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} could be {}", name, fmt::join(names, ", ")), "write more of it");
}

} // namespace

std::span<const ChatCommandName> chat_commands() {
  return commands;
}

bool is_setting(ChatCommand::Kind kind) {
  switch (kind) {
  case Kind::system:
  case Kind::speculation:
  case Kind::window:
  case Kind::verify:
  case Kind::temperature:
  case Kind::seed:
  case Kind::context_shift: return true;
  default: return false;
  }
}

std::string chat_help(int columns) {
  constexpr int indent = 42;
  std::string text;
  for (const ChatCommandName& c : commands) {
    std::string before = fmt::format("  {} {}", c.name, c.argument);
    for (const std::string& line : wrapped_words(c.help, std::max(columns - indent - 1, 1))) {
      text += fmt::format("{:<{}} {}\n", before, indent, line);
      before.clear();
    }
  }
  for (const char* more :
       {"Several lines: end each but the last with \\, or put them between lines of \"\"\".",
        "Ctrl-C stops an answer, Ctrl-D leaves; Tab completes.",
        "Result of a call (--tools): as a message; /skip or an empty line: there is none; Ctrl-C "
        "takes back what was said."})
    for (const std::string& line : wrapped_words(more, std::max(columns - 2, 1)))
      text += "  " + line + "\n";
  return text;
}

Result<ChatCommand> parse_chat_line(std::string_view line) {
  if (!line.starts_with('/'))
    return ChatCommand{Kind::say, std::string(line)};
  if (line.starts_with("//"))
    return ChatCommand{Kind::say, std::string(line.substr(1))};
  const std::size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view name = line.substr(0, end);
  const std::string argument(text::trimmed(line.substr(end)));
  const auto found = find(name);
  if (found.size() != 1)
    return no_command(name, found);
  const ChatCommandName* command = found.front();
  if (command->argument.empty() && !argument.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} takes nothing, but got '{}'", command->name, argument),
                fmt::format("write {} alone", command->name));
  if (!command->argument.empty() && command->argument[0] != '[' && argument.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("{} lacks a value", command->name),
                fmt::format("write {} {}", command->name, command->argument));
  return ChatCommand{command->kind, argument};
}

} // namespace paceline::apps
