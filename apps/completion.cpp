// paceline completion: the script by which a shell completes the program's command line, made from
// the same description that parses it.
#include "apps/console/command.hpp"
#include "apps/console/devices.hpp"
#include "apps/console/output.hpp"
#include "apps/console/validators.hpp"
#include "apps/console/words.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace paceline::apps {
namespace {

/// One option and what a shell may complete after it.
struct OptionFacts {
  enum class Value { none, any, choice, file, model, draft, device };
  std::vector<std::string> names; ///< "-m", "--model"
  std::string help;
  Value value = Value::none;
  std::vector<std::string> choices;
};

struct CommandFacts {
  std::string name;
  std::string help;
  std::vector<OptionFacts> options;
  OptionFacts positional; ///< Has no names; Value::none: the command takes none.
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1)
    parts.push_back(text.substr(begin, (end = text.find(separator, begin)) - begin));
  return parts;
}

/// Reads the kind of value from the name of its type: "FILE", "MODEL", "FORMAT",
/// "off|sync|overlap". Of "auto|K" only one is a word to complete, and the names of drafts come
/// from the program when the shell completes.
void read_value(const CLI::Option& option, OptionFacts& facts) {
  const std::string type = option.get_type_name();
  facts.value = type == "FILE" || type == "DIR" ? OptionFacts::Value::file
                : type == "MODEL"               ? OptionFacts::Value::model
                : type.starts_with("MODEL|")    ? OptionFacts::Value::draft
                : type == "DEVICE"              ? OptionFacts::Value::device
                                                : OptionFacts::Value::any;
  if (facts.value == OptionFacts::Value::draft)
    return;
  if (type.starts_with("FORMAT"))
    facts.choices = weight_format_words();
  for (const std::string& word : split(type, '|'))
    if (type.find('|') != std::string::npos && std::all_of(word.begin(), word.end(), [](char c) {
          return std::islower(c) || std::isdigit(c);
        }))
      facts.choices.push_back(word);
  if (!facts.choices.empty())
    facts.value = OptionFacts::Value::choice;
}

OptionFacts facts_of(const CLI::Option& option) {
  OptionFacts facts;
  for (const std::string& name : option.get_snames())
    facts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    facts.names.push_back("--" + name);
  facts.help = option.get_description();
  if (option.get_items_expected_max() > 0)
    read_value(option, facts);
  return facts;
}

CommandFacts facts_of(const CLI::App& app) {
  CommandFacts facts{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    OptionFacts own = facts_of(*option);
    if (!own.names.empty())
      facts.options.push_back(own);
    if (option->get_positional() && facts.positional.value == OptionFacts::Value::none)
      facts.positional = own;
  }
  return facts;
}

/// Returns the program itself first, then its commands; a command within another is named with
/// both: "bench serve".
std::vector<CommandFacts> all_facts(const CLI::App& program) {
  std::vector<CommandFacts> all{facts_of(program)};
  for (const CLI::App* command : program.get_subcommands(nullptr)) {
    all.push_back(facts_of(*command));
    for (const CLI::App* inner : command->get_subcommands(nullptr)) {
      CommandFacts facts = facts_of(*inner);
      facts.name = command->get_name() + " " + facts.name;
      all.push_back(std::move(facts));
    }
  }
  for (CommandFacts& facts : all)
    if (facts.name == "help") // The argument of `help` is any command.
      for (const CLI::App* command : program.get_subcommands(nullptr)) {
        facts.positional.value = OptionFacts::Value::choice;
        facts.positional.choices.push_back(command->get_name());
      }
  return all;
}

/// Returns the command that this one is within; empty if it is in none.
std::string outer_of(const CommandFacts& command) {
  const std::size_t blank = command.name.find(' ');
  return blank == std::string::npos ? "" : command.name.substr(0, blank);
}
std::string inner_of(const CommandFacts& command) {
  return command.name.substr(command.name.find(' ') + 1);
}

/// Returns the names of the commands within one (empty: the program's).
std::vector<std::string> names_within(const std::vector<CommandFacts>& all,
                                      const std::string& outer) {
  std::vector<std::string> names;
  for (const CommandFacts& command : all)
    if (!command.name.empty() && outer_of(command) == outer)
      names.push_back(inner_of(command));
  return names;
}

std::string joined(const std::vector<std::string>& words, const std::string& separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string names_of(const CommandFacts& command) {
  std::vector<std::string> names;
  for (const OptionFacts& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return joined(names, " ");
}

/// Returns the names of all commands within another, quoted for `case`.
std::string inner_patterns(const std::vector<CommandFacts>& all) {
  std::vector<std::string> patterns;
  for (const CommandFacts& command : all)
    if (!outer_of(command).empty())
      patterns.push_back("'" + command.name + "'");
  return joined(patterns, "|");
}

/// Returns how bash completes a value.
std::string bash_values(const OptionFacts& facts) {
  switch (facts.value) {
  case OptionFacts::Value::choice: return fmt::format("-W '{}'", joined(facts.choices, " "));
  case OptionFacts::Value::file: return "-f";
  case OptionFacts::Value::model: return R"sh(-d -W "$(words models)")sh";
  case OptionFacts::Value::draft: return R"sh(-d -W "$(words drafts)")sh";
  case OptionFacts::Value::device: return R"sh(-W "$(words devices)")sh";
  default: return "";
  }
}

std::string bash(const std::vector<CommandFacts>& all) {
  std::string values;
  std::string words;
  for (const CommandFacts& command : all) {
    const std::string name = &command == &all.front() ? "" : command.name;
    for (const OptionFacts& option : command.options)
      if (option.value != OptionFacts::Value::none) {
        std::vector<std::string> patterns;
        for (const std::string& each : option.names)
          patterns.push_back(fmt::format("'{}:{}'", name, each));
        values += fmt::format("    {}) reply {} ; return ;;\n", joined(patterns, "|"),
                              bash_values(option));
      }
    const auto within = names_within(all, name);
    const std::string more = within.empty() ? "" : " " + joined(within, " ");
    words += fmt::format("    '{}') options='{}{}' files=\"{}\" ;;\n", name, names_of(command),
                         more, bash_values(command.positional));
  }
  return fmt::format(R"(# bash completion of paceline; made by `paceline completion bash`.
_paceline() {{
  local command= word options= files= first=$COMP_CWORD current= i
  # bash takes cuda:0 for three words.
  while ((first > 1)) && [[ ${{COMP_WORDS[first]}} == : || ${{COMP_WORDS[first-1]}} == : ]]; do
    ((first--))
  done
  for ((i = first; i <= COMP_CWORD; i++)); do current+=${{COMP_WORDS[i]}}; done
  local previous=${{COMP_WORDS[first-1]}} before=${{current%"${{current##*:}}"}}
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ $word == -* ]] && continue
    case "$command $word" in
      ' '*) command=$word ;;
      {}) command="$command $word" ;;
    esac
  done
  reply() {{
    local IFS=$'\n'
    [[ $# -eq 0 ]] || COMPREPLY=($(IFS=$' \n'; compgen "$@" -- "$current"))
    [[ $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${{COMPREPLY[@]#"$before"}}")
  }}
  words() {{ "${{COMP_WORDS[0]}}" completion "$1" 2>/dev/null; }}
  COMPREPLY=()
  case $command:$previous in
{}  esac
  case $command in
{}  esac
  if [[ $current == -* || -z $files ]]; then
    reply -W "$options"
  else
    eval "reply $files"
  fi
}}
complete -o filenames -F _paceline paceline
)",
                     inner_patterns(all), values, words);
}

/// Escapes a text within single quotes for zsh, which gives brackets and colons a meaning of its
/// own.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\'";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_values(const OptionFacts& facts) {
  switch (facts.value) {
  case OptionFacts::Value::none: return "";
  case OptionFacts::Value::any: return ":value: ";
  case OptionFacts::Value::choice: return fmt::format(":value:({})", joined(facts.choices, " "));
  case OptionFacts::Value::file: return ":file:_files";
  case OptionFacts::Value::model: return ":model:{_paceline_words models; _files -/}";
  case OptionFacts::Value::draft: return ":draft:{_paceline_words drafts; _files -/}";
  case OptionFacts::Value::device: return ":device:{_paceline_words devices}";
  }
  return "";
}

std::string zsh_arguments(const CommandFacts& command) {
  std::string out = "_arguments -S";
  for (const OptionFacts& option : command.options)
    for (const std::string& name : option.names)
      out +=
          fmt::format(" \\\n        '{}[{}]{}'", name, zsh_text(option.help), zsh_values(option));
  if (command.positional.value != OptionFacts::Value::none)
    out += fmt::format(" \\\n        '*{}'", zsh_values(command.positional));
  return out;
}

std::string zsh(const std::vector<CommandFacts>& all) {
  std::string names;
  std::string cases;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (outer_of(all[i]).empty())
      names += fmt::format("    '{}:{}'\n", all[i].name, zsh_text(all[i].help));
    const auto within = names_within(all, all[i].name);
    cases += fmt::format(
        "    '{}')\n{}      {}\n      ;;\n", all[i].name,
        within.empty() ? "" : "      ((CURRENT == 2)) && compadd -- " + joined(within, " ") + "\n",
        zsh_arguments(all[i]));
  }
  return fmt::format(R"sh(#compdef paceline
# zsh completion of paceline; made by `paceline completion zsh`.
_paceline_words() {{
  compadd -- ${{(f)"$(paceline completion $1 2>/dev/null)"}}
}}
_paceline() {{
  local -a commands=(
{})
  if ((CURRENT == 2)); then
    _describe command commands
    compadd -- {}
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case "$command $words[2]" in
    {}) command="$command $words[2]"; shift words; ((CURRENT--)) ;;
  esac
  case $command in
{}  esac
}}
_paceline "$@"
)sh",
                     names, names_of(all.front()), inner_patterns(all), cases);
}

/// Escapes a text within single quotes.
std::string fish_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\')
      out += '\\';
    out += c;
  }
  return out;
}

std::string fish_option(const OptionFacts& option, const std::string& condition) {
  std::string line = "complete -c paceline -n '" + condition + "'";
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  switch (option.value) {
  case OptionFacts::Value::none: line += " -f"; break;
  case OptionFacts::Value::any: line += " -x"; break;
  case OptionFacts::Value::choice:
    line += fmt::format(" -xa '{}'", joined(option.choices, " "));
    break;
  case OptionFacts::Value::file: line += " -rF"; break;
  case OptionFacts::Value::model:
    line += " -xa '(paceline completion models; __fish_complete_directories)'";
    break;
  case OptionFacts::Value::draft:
    line += " -xa '(paceline completion drafts; __fish_complete_directories)'";
    break;
  case OptionFacts::Value::device: line += " -xa '(paceline completion devices)'"; break;
  }
  return line + fmt::format(" -d '{}'\n", fish_text(option.help));
}

/// Returns when fish offers a command's options: if this command was chosen, and none within it or
/// of its name elsewhere.
std::string fish_condition(const std::vector<CommandFacts>& all, const CommandFacts& command) {
  if (command.name.empty())
    return "__fish_use_subcommand";
  std::string condition = "__fish_seen_subcommand_from " + inner_of(command);
  if (const std::string outer = outer_of(command); !outer.empty())
    return condition + "; and __fish_seen_subcommand_from " + outer;
  for (const CommandFacts& other : all)
    if (outer_of(other) == command.name)
      condition += "; and not __fish_seen_subcommand_from " + inner_of(other);
    else if (!outer_of(other).empty() && inner_of(other) == command.name)
      condition += "; and not __fish_seen_subcommand_from " + outer_of(other);
  return condition;
}

std::string fish(const std::vector<CommandFacts>& all) {
  std::string out = "# fish completion of paceline; made by `paceline completion fish`.\n";
  for (const CommandFacts& command : all) {
    const bool program = &command == &all.front();
    const std::string condition = fish_condition(all, command);
    if (!program)
      out += fmt::format("complete -c paceline -f -n '{}' -a {} -d '{}'\n",
                         outer_of(command).empty()
                             ? "__fish_use_subcommand"
                             : "__fish_seen_subcommand_from " + outer_of(command),
                         inner_of(command), fish_text(command.help));
    for (const OptionFacts& option : command.options)
      out += fish_option(option, condition);
    const auto value = command.positional.value;
    if (value == OptionFacts::Value::choice)
      out += fmt::format("complete -c paceline -f -n '{}' -a '{}'\n", condition,
                         joined(command.positional.choices, " "));
    else if (!program && value != OptionFacts::Value::file)
      out += fmt::format("complete -c paceline -f -n '{}'\n", condition);
  }
  return out;
}

std::string lines(std::vector<std::string> words) {
  words.emplace_back();
  return joined(words, "\n");
}

// The functions below print what the scripts ask for at completion, since it differs between
// machines.
std::string models(const std::vector<CommandFacts>& /*all*/) {
  return lines(model_words());
}

std::string drafts(const std::vector<CommandFacts>& /*all*/) {
  return lines(draft_words());
}

std::string devices(const std::vector<CommandFacts>& /*all*/) {
  return lines(device_names());
}

using Words = std::string (*)(const std::vector<CommandFacts>&);

} // namespace

Command add_completion(CLI::App& program) {
  auto* app = program.add_subcommand("completion", "Print a shell's completion of this program");
  auto what = std::make_shared<Words>(nullptr);
  add_choice<Words>(*app, "what", *what,
                    {{"bash", bash},
                     {"zsh", zsh},
                     {"fish", fish},
                     {"models", models},
                     {"drafts", drafts},
                     {"devices", devices}},
                    "For which shell; or the names that its script asks for")
      ->required();
  app->footer(R"(Examples:
  source <(paceline completion bash)
  paceline completion fish > ~/.config/fish/completions/paceline.fish

Installed packages have them in place already.)");
  return {app, [&program, what](Interrupt&) { return print_text((*what)(all_facts(program))); }};
}

} // namespace paceline::apps
