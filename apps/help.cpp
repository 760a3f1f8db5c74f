// paceline help: what --help says, by another name.
#include "apps/command.hpp"
#include "apps/output.hpp"

#include <fmt/format.h>
#include <memory>
#include <string>

namespace paceline::apps {
namespace {

/// CLI::App::help would explain the command that was chosen, which is this one.
std::string help_of(const CLI::App& app, const std::string& parent) {
  return app.get_formatter()->make_help(&app, parent + app.get_name(), CLI::AppFormatMode::Normal);
}

Result<int> explain(const CLI::App& program, const std::string& name) {
  if (name.empty())
    return print_text(help_of(program, ""));
  for (const CLI::App* command : program.get_subcommands(nullptr))
    if (command->get_name() == name)
      return print_text(help_of(*command, program.get_name() + " "));
  return fail(ErrorCode::not_found, "there is no command " + name, "see paceline --help");
}

} // namespace

Command add_help(CLI::App& program) {
  auto* app = program.add_subcommand("help", "Explain the program, or one of its commands");
  auto name = std::make_shared<std::string>();
  app->add_option("command", *name, "Which one")->type_name("COMMAND");
  return {app, [&program, name](Interrupt&) { return explain(program, *name); }};
}

} // namespace paceline::apps
