// The paceline program: finds the command, runs it, and turns what went wrong into one line on
// standard error and an exit status.
#include "apps/command.hpp"
#include "apps/field_names.hpp"
#include "apps/interrupt.hpp"
#include "apps/terminal.hpp"
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

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

int complain(const std::string& what, int status) {
  note("paceline: " + one_line(what) + "\n");
  return status;
}

int exit_status(ErrorCode code) {
  switch (code) {
  case ErrorCode::invalid_argument:
  case ErrorCode::not_found:
  case ErrorCode::corrupt:
  case ErrorCode::unsupported: return status_usage;
  case ErrorCode::cancelled: return status_interrupted;
  case ErrorCode::out_of_memory:
  case ErrorCode::overloaded:
  case ErrorCode::deadline:
  case ErrorCode::unavailable:
  case ErrorCode::internal: return status_failed;
  }
  return status_failed;
}

/// The part of the command line that errors point to for help.
std::string help_of(const CLI::App& program) {
  std::string command = "paceline ";
  for (auto chosen = program.get_subcommands(); !chosen.empty();
       chosen = chosen.front()->get_subcommands())
    command += chosen.front()->get_name() + " ";
  return command + "--help";
}

/// CLI11's message, in the form `what is wrong: how to mend it`.
std::string usage_problem(const CLI::App& program, const CLI::ParseError& error) {
  const std::string what = error.what();
  if (dynamic_cast<const CLI::ValidationError*>(&error)) { // "--top-p: cannot be '3': give ..."
    const auto colon = what.find(": ");
    return colon == std::string::npos ? what : what.substr(0, colon) + what.substr(colon + 1);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
    const auto extras = program.remaining(true);
    const std::string first = extras.empty() ? "" : extras.front();
    const char* kind = first.starts_with('-') ? "unknown option " : "unexpected argument ";
    return kind + first + ": see " + help_of(program);
  }
  return what + ": see " + help_of(program);
}

int parse_problem(const CLI::App& program, const CLI::ParseError& error) {
  if (error.get_exit_code() == int(CLI::ExitCodes::Success))
    return program.exit(error); // --help and --version
  return complain(usage_problem(program, error), status_usage);
}

/// The first argument must be a command or an option; CLI11 itself would not name it.
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
    return status ? *status
                  : complain(with_options(status.error()).text(), exit_status(status.error().code));
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
  program.set_version_flag("--version", "paceline " PACELINE_VERSION);
  program.require_subcommand(0, 1);
  program.get_formatter()->label("SUBCOMMAND", "COMMAND");
  program.footer(footer);
  const std::array commands{add_generate(program),   add_chat(program),     add_race(program),
                            add_serve(program),      add_demo(program),     add_bench(program),
                            add_score(program),      add_tokenize(program), add_inspect(program),
                            add_quantize(program),   add_plan(program),     add_node(program),
                            add_completion(program), add_help(program)};
  for (const Command& command : commands)
    command.app->group("Commands");
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
  std::signal(SIGPIPE, SIG_IGN); // a reader that goes away is no error
  return paceline::apps::program(count, arguments);
}
