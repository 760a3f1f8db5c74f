// paceline list: the models that lie here under names.
#include "apps/console/command.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/terminal/pull/shelf.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <memory>

namespace paceline::apps {
namespace {

std::tm utc(const pull::ShelfModel& model) {
  return fmt::gmtime(std::chrono::system_clock::to_time_t(model.modified));
}

Result<int> show_json(const std::vector<pull::ShelfModel>& models) {
  boost::json::array list;
  for (const pull::ShelfModel& model : models)
    list.push_back({{"name", model.name.text()},
                    {"kind", model.kind},
                    {"bytes", model.bytes},
                    {"modified", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", utc(model))},
                    {"store", models::to_string(model.store)},
                    {"location", model.location}});
  return print_json({{"models", std::move(list)}});
}

Result<int> show_text(const std::vector<pull::ShelfModel>& models) {
  if (models.empty())
    return print_text("no models: paceline pull ORG/NAME fetches one\n");
  Table table({"name", "kind", "size", "date", "of"});
  for (const pull::ShelfModel& model : models)
    table.add({model.name.text(), model.kind, human_bytes(model.bytes),
               fmt::format("{:%Y-%m-%d}", utc(model)), models::to_string(model.store)});
  return print_text(table.text());
}

} // namespace

Command add_list(CLI::App& program) {
  auto* app = program.add_subcommand("list", "List the models that -m finds by name");
  auto json = std::make_shared<bool>(false);
  add_json_option(*app, *json);
  app->footer("Those of Paceline (paceline pull), the Hugging Face cache, LM Studio and Ollama.");
  return {app, [json](Interrupt&) {
            const auto models = pull::shelf_models();
            return *json ? show_json(models) : show_text(models);
          }};
}

} // namespace paceline::apps
