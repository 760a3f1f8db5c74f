// paceline help: prints the same as --help.
#include "apps/console/command.hpp"
#include "apps/console/output.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <string>
#include <vector>

namespace paceline::apps {
namespace {

/// Returns the help of a command. CLI::App::help would explain the command that was chosen, which
/// is `help`.
std::string help_of(const CLI::App& app, const std::string& parent) {
  return app.get_formatter()->make_help(&app, parent + app.get_name(), CLI::AppFormatMode::Normal);
}

/// Prints the help. names: of a command, and of one within it.
Result<int> explain(const CLI::App& program, const std::vector<std::string>& names) {
  const CLI::App* app = &program;
  std::string parent;
  for (const std::string& name : names) {
    const auto within = app->get_subcommands(nullptr);
    const auto found = std::ranges::find(within, name, &CLI::App::get_name);
    parent += app->get_name() + " ";
    if (found == within.end())
      return fail(ErrorCode::not_found,
                  fmt::format("there is no command {}", fmt::join(names, " ")),
                  fmt::format("see {}--help", parent));
    app = *found;
  }
  return print_text(help_of(*app, parent));
}

} // namespace

Command add_help(CLI::App& program) {
  auto* app = program.add_subcommand("help", "Explain the program, or one of its commands");
  auto names = std::make_shared<std::vector<std::string>>();
  app->add_option("command", *names, "Which one, such as bench serve")->type_name("COMMAND");
  return {app, [&program, names](Interrupt&) { return explain(program, *names); }};
}

} // namespace paceline::apps
