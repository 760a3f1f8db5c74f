#include "apps/chat/command.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace paceline::apps {
namespace {

using Kind = ChatCommand::Kind;

constexpr ChatCommandName commands[] = {
    {Kind::help, "/help", "", "This list"},
    {Kind::reset, "/reset", "", "Forget the conversation; what the system says stays"},
    {Kind::system, "/system", "[TEXT|none]", "What the system says first; alone: show it"},
    {Kind::model, "/model", "[DIR [DRAFT]]", "Show the models, or change to others"},
    {Kind::speculation, "/speculation", "off|sync|overlap|auto",
     "How draft and target work together"},
    {Kind::window, "/window", "auto|K", "Tokens drafted at a time"},
    {Kind::verify, "/verify", "auto|rejection|coupled|match", "How drafted tokens are judged"},
    {Kind::temperature, "/temperature", "X|default", "0: greedy; default: the model's own"},
    {Kind::seed, "/seed", "N|random", "Makes answers repeatable"},
    {Kind::stats, "/stats", "", "Figures of this session"},
    {Kind::save, "/save", "FILE", "Write the conversation to a file"},
    {Kind::load, "/load", "FILE", "Go on with a conversation from a file"},
    {Kind::quit, "/quit", "", "Leave, as Ctrl-D does"},
};

std::string_view trimmed(std::string_view text) {
  constexpr const char* spaces = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == text.npos)
    return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

/// The command with this name, or the only one whose name begins so; null: none, or several.
const ChatCommandName* find(std::string_view begun) {
  const auto begins = [&](const ChatCommandName& c) { return c.name.starts_with(begun); };
  const auto is = [&](const ChatCommandName& c) { return c.name == begun; };
  if (const auto* exact = std::find_if(std::begin(commands), std::end(commands), is);
      exact != std::end(commands))
    return exact;
  if (begun.size() < 2 || std::count_if(std::begin(commands), std::end(commands), begins) != 1)
    return nullptr;
  return std::find_if(std::begin(commands), std::end(commands), begins);
}

} // namespace

std::span<const ChatCommandName> chat_commands() {
  return commands;
}

std::string chat_help() {
  std::string text;
  for (const ChatCommandName& c : commands)
    text += fmt::format("  {:<42} {}\n", fmt::format("{} {}", c.name, c.argument), c.help);
  return text +
         "  Several lines: end each but the last with \\, or put them between lines of \"\"\".\n"
         "  Ctrl-C stops an answer, Ctrl-D leaves.\n";
}

Result<ChatCommand> parse_chat_line(std::string_view line) {
  if (!line.starts_with('/'))
    return ChatCommand{Kind::say, std::string(line)};
  if (line.starts_with("//"))
    return ChatCommand{Kind::say, std::string(line.substr(1))};
  const std::size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view name = line.substr(0, end);
  const std::string argument(trimmed(line.substr(end)));
  const ChatCommandName* command = find(name);
  if (!command)
    return fail(ErrorCode::invalid_argument, fmt::format("there is no command {}", name),
                "/help lists them; // begins a line with a slash");
  if (command->argument.empty() && !argument.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} takes nothing, but got '{}'", command->name, argument),
                fmt::format("write {} alone", command->name));
  if (!command->argument.empty() && command->argument[0] != '[' && argument.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("{} lacks a value", command->name),
                fmt::format("write {} {}", command->name, command->argument));
  return ChatCommand{command->kind, argument};
}

std::string chat_completion(std::string_view begun) {
  const ChatCommandName* command = begun.starts_with('/') ? find(begun) : nullptr;
  if (!command)
    return {};
  return std::string(command->name.substr(begun.size())) + (command->argument.empty() ? "" : " ");
}

} // namespace paceline::apps
