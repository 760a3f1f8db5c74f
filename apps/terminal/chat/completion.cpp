#include "apps/terminal/chat/completion.hpp"

#include "apps/console/home.hpp"
#include "apps/console/words.hpp"
#include "apps/terminal/chat/command.hpp"
#include "apps/terminal/chat/settings.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace paceline::apps {
namespace {

namespace fs = std::filesystem;
using Kind = ChatCommand::Kind;
using Words = std::vector<std::string>;

Words beginning_with(std::string_view begun, const Words& words) {
  Words found;
  std::ranges::copy_if(words, std::back_inserter(found),
                       [&](const std::string& word) { return word.starts_with(begun); });
  return found;
}

/// Returns the entries of the begun folder; folders end with a slash. folders: whether to return
/// only folders.
Words files(std::string_view begun, bool folders) {
  const std::size_t name_begin = begun.find_last_of('/') + 1; // 0 if there is no slash.
  const std::string folder(begun.substr(0, name_begin));
  const std::string_view name = begun.substr(name_begin);
  Words found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder.empty() ? "." : with_home(folder), failed), end;
       !failed && entry != end; entry.increment(failed)) {
    const std::string own = entry->path().filename().string();
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored);
    const bool hidden = own.starts_with('.') && !name.starts_with('.');
    if (own.starts_with(name) && !hidden && (is_folder || !folders))
      found.push_back(folder + own + (is_folder ? "/" : ""));
  }
  std::ranges::sort(found);
  return found;
}

Words models(std::string_view begun, const Words& named) {
  Words found = beginning_with(begun, named);
  std::ranges::copy(files(begun, true), std::back_inserter(found));
  return found;
}

/// Returns the words of "[off|sync|overlap|auto]" that are no placeholders.
Words values(std::string_view argument) {
  Words found;
  while (!argument.empty()) {
    const std::size_t end = std::min(argument.find_first_of("[]| "), argument.size());
    const std::string_view word = argument.substr(0, end);
    if (!word.empty() && word.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == word.npos)
      found.emplace_back(word);
    argument.remove_prefix(std::min(end + 1, argument.size()));
  }
  return found;
}

Words command_names(std::string_view begun) {
  Words found;
  for (const ChatCommandName& command : chat_commands())
    if (command.name.starts_with(begun))
      found.emplace_back(command.name);
  if (std::ranges::find(found, begun) != found.end())
    return {std::string(begun)}; // The name may be the beginning of another, too.
  return found;
}

/// Returns the words that could follow a command's name. argument: the part of it that is typed.
Words arguments(const ChatCommandName& command, std::string_view argument) {
  const std::size_t blank = argument.find(' ');
  switch (command.kind) {
  case Kind::save:
  case Kind::load: return files(argument, false);
  case Kind::model:
    return blank == argument.npos ? models(argument, model_words())
                                  : models(argument.substr(blank + 1), draft_words());
  case Kind::set: {
    for (const ChatCommandName& each : chat_commands())
      if (is_setting(each.kind) && argument.starts_with(std::string(each.name.substr(1)) + " "))
        return arguments(each, argument.substr(each.name.size()));
    return beginning_with(argument, setting_names());
  }
  default: return beginning_with(argument, values(command.argument));
  }
}

std::string common_beginning(const Words& words) {
  std::string common = words.front();
  for (const std::string& word : words)
    common.resize(std::size_t(std::ranges::mismatch(common, word).in1 - common.begin()));
  return common;
}

/// Makes the completion. words: words that begin with `begun`. more: whether something follows a
/// word that is the only one.
ChatCompletion completion(std::string_view begun, Words words, bool more) {
  if (words.empty())
    return {};
  const std::string common = common_beginning(words);
  const bool whole = words.size() == 1 && more && !common.ends_with('/');
  return {common.substr(begun.size()) + (whole ? " " : ""), std::move(words)};
}

} // namespace

ChatCompletion complete_chat_line(std::string_view line) {
  if (!line.starts_with('/') || line.starts_with("//"))
    return {};
  const std::size_t blank = line.find(' ');
  const auto command =
      std::ranges::find(chat_commands(), line.substr(0, blank), &ChatCommandName::name);
  if (blank == line.npos) {
    Words names = command_names(line);
    const auto one = std::ranges::find(chat_commands(), names.empty() ? "" : names.front(),
                                       &ChatCommandName::name);
    const bool takes = one != chat_commands().end() && !one->argument.empty();
    return completion(line, std::move(names), takes);
  }
  if (command == chat_commands().end())
    return {};
  const std::string_view argument = line.substr(line.find_first_not_of(' ', blank) == line.npos
                                                    ? line.size()
                                                    : line.find_first_not_of(' ', blank));
  Words words = arguments(*command, argument);
  const bool by_words = command->kind == Kind::model || command->kind == Kind::set;
  const std::string_view begun =
      by_words ? argument.substr(argument.find_last_of(' ') + 1) : argument;
  return completion(begun, std::move(words), by_words && begun.size() == argument.size());
}

} // namespace paceline::apps
