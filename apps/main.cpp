// The paceline program: finds the command, runs it, and turns an error into one line on standard
// error and an exit status.
#include "apps/commit.hpp"
#include "apps/console/command.hpp"
#include "apps/console/interrupt.hpp"
#include "apps/console/validators.hpp"
#include "paceline/version.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <new>
#include <string>

namespace paceline::apps {
namespace {

constexpr const char* footer = R"(Examples:
  paceline demo
  paceline generate "def fibonacci(n):" -n 64 --seed 7

'paceline help COMMAND' explains a command. Models default to the built-in demo pair.
Exit status: 0 done, 1 failed, 2 bad usage or input, 130 after Ctrl-C.)";

/// Returns the part of the command line that errors point to for help.
std::string help_of(const CLI::App& program) {
  std::string command = "paceline ";
  for (auto chosen = program.get_subcommands(); !chosen.empty();
       chosen = chosen.front()->get_subcommands())
    command += chosen.front()->get_name() + " ";
  return command + "--help";
}

/// Returns what stands between two parts of a text; if the second is not there, all that follows
/// the first.
std::string between(const std::string& text, const std::string& before, const std::string& behind) {
  const std::size_t found = text.find(before);
  const std::size_t begin = found == text.npos ? 0 : found + before.size();
  return text.substr(begin, text.find(behind, begin) - begin);
}

std::string mismatch(const std::string& what) {
  const std::string option = what.substr(0, what.find(": "));
  if (what.ends_with(" missing")) // "--top-k: 1 required K missing"
    return option + " lacks a value: give " + between(what, " required ", " missing") + ", or";
  if (what.find("flag override") != what.npos) // "--json was given a disallowed flag override"
    return what.substr(0, what.find(' ')) + " takes no value:";
  return option + " has too many values, or too few:";
}

/// Rewrites a message of CLI11; the comments show CLI11's own words. The caller appends how to mend
/// it.
std::string in_our_words(const std::string& kind, const std::string& what) {
  const std::string both = kind == "RequiresError" ? " requires " : " excludes ";
  const std::string one = between(what, "", both);
  const std::string other = between(what, both, "\n");
  if (kind == "RequiredError") // "file is required"
    return between(what, "", " is required") + " is missing:";
  if (kind == "RequiresError") // "--logprobs requires --json"
    return one + " goes with " + other + " only: give both, or";
  if (kind == "ExcludesError") // "--file excludes --prompt"
    return one + " stands beside " + other + ": give one of them, or";
  if (kind == "ConversionError") // "Could not convert: --seed = x"
    return between(what, "convert: ", " = ") + " cannot be '" + between(what, " = ", "\n") + "':";
  if (kind == "ArgumentMismatch")
    return mismatch(what);
  return what + ":";
}

/// Returns what CLI11 found wrong, in the form `what is wrong: how to mend it`.
std::string usage_problem(const CLI::App& program, const CLI::ParseError& error) {
  const std::string what = error.what();
  const std::string see = " see " + help_of(program);
  if (dynamic_cast<const CLI::ValidationError*>(&error)) { // "--top-p: cannot be '3': give ..."
    const auto colon = what.find(": ");
    return colon == std::string::npos ? what : what.substr(0, colon) + what.substr(colon + 1);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
    const auto extras = program.remaining(true);
    const std::string first = extras.empty() ? "" : extras.front();
    const char* kind = first.starts_with('-') ? "unknown option " : "unexpected argument ";
    return kind + first + ":" + see;
  }
  return in_our_words(error.get_name(), what) + see;
}

/// Returns "paceline 0.1.0 (0123456789ab)".
std::string version_line() {
  const std::string built_from = commit();
  return "paceline " PACELINE_VERSION + (built_from.empty() ? "" : " (" + built_from + ")");
}

int parse_problem(const CLI::App& program, const CLI::ParseError& error) {
  if (error.get_exit_code() == int(CLI::ExitCodes::Success))
    return program.exit(error); // These are --help and --version.
  return complain(usage_problem(program, error), status_usage);
}

/// Whether the first argument is a command or an option, as it must be; CLI11's own error would not
/// name it.
bool names_command(const CLI::App& program, int count, char** arguments) {
  const auto is_named = [&](const CLI::App* command) {
    return command->get_name() == arguments[1];
  };
  const auto known = program.get_subcommands(nullptr);
  return count < 2 || arguments[1][0] == '-' || std::any_of(known.begin(), known.end(), is_named);
}

int run(const Command& command, Interrupt& interrupt) {
  try {
    const auto status = command.run(interrupt);
    return status ? *status : (print_error(status.error()), exit_status(status.error().code));
  } catch (const std::bad_alloc&) {
    return complain("out of memory: use a smaller model or context", status_failed);
  } catch (const std::exception& error) {
    return complain(std::string("internal error (") + error.what() + "): please report it",
                    status_failed);
  }
}

int program(int count, char** arguments) {
  CLI::App program("Paceline: speculative decoding in which draft and target work at once.",
                   "paceline");
  program.set_version_flag("--version", version_line());
  program.require_subcommand(0, 1);
  program.get_formatter()->label("SUBCOMMAND", "COMMAND");
  program.footer(footer);
  const std::array commands{
      add_generate(program),    add_chat(program),       add_race(program),  add_serve(program),
      add_demo(program),        add_bench(program),      add_score(program), add_tokenize(program),
      add_inspect(program),     add_quantize(program),   add_pull(program),  add_list(program),
      add_rm(program),          add_plan(program),       add_node(program),  add_theory(program),
      add_conformance(program), add_completion(program), add_help(program)};
  for (const Command& command : commands)
    command.app->group("Commands");
  settle_options(program);
  if (!names_command(program, count, arguments))
    return complain(std::string("there is no command ") + arguments[1] + ": see paceline --help",
                    status_usage);
  try {
    program.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return parse_problem(program, error);
  }
  Interrupt interrupt;
  for (const Command& command : commands)
    if (command.app->parsed())
      return run(command, interrupt);
  return complain("no command given: see paceline --help, or try paceline demo", status_usage);
}

} // namespace

} // namespace paceline::apps

int main(int count, char** arguments) {
  std::signal(SIGPIPE, SIG_IGN); // A reader of the output that goes away is no error.
  return paceline::apps::program(count, arguments);
}
