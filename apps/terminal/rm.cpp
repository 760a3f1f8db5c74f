// paceline rm: removes a model that was pulled.
#include "apps/console/command.hpp"
#include "apps/console/output.hpp"
#include "apps/terminal/pull/shelf.hpp"

#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <string>

namespace paceline::apps {
namespace {

struct Options {
  std::string name;
  bool yes = false;
};

/// Asks a person whether to go on. Error: there is nobody to ask.
Result<bool> is_sure(const pull::ShelfModel& model) {
  if (!input_is_terminal())
    return fail(ErrorCode::invalid_argument, "nothing was removed, since nobody can be asked",
                "give -y to remove it without a question");
  note(fmt::format("Remove {} ({})? [y/N] ", model.name.text(), human_bytes(model.bytes)));
  std::string answer;
  std::getline(std::cin, answer);
  return answer.starts_with('y') || answer.starts_with('Y');
}

Result<int> run(const Options& options) {
  const auto model = pull::find_pulled(options.name);
  if (!model)
    return tl::unexpected(model.error());
  const auto sure = options.yes ? Result<bool>(true) : is_sure(*model);
  if (!sure)
    return tl::unexpected(sure.error());
  if (!*sure)
    return status_failed;
  return pull::remove_pulled(model->name).and_then([&] {
    return print_text(
        fmt::format("{} is removed: {}\n", model->name.text(), human_bytes(model->bytes)));
  });
}

} // namespace

Command add_rm(CLI::App& program) {
  auto* app = program.add_subcommand("rm", "Remove a model that was pulled");
  auto options = std::make_shared<Options>();
  app->add_option("name", options->name, "Its name, as paceline list shows it")
      ->required()
      ->type_name("MODEL");
  app->add_flag("-y,--yes", options->yes, "Do not ask");
  return {app, [options](Interrupt&) { return run(*options); }};
}

} // namespace paceline::apps
