#include "apps/configuration.hpp"

#include <fmt/format.h>

namespace paceline::apps {
namespace {

[[noreturn]] void complain(const std::string& what) {
  throw CLI::ValidationError("--config", what);
}

std::vector<CLI::ConfigItem> read(const std::string& file) {
  try {
    return CLI::ConfigTOML().from_file(file);
  } catch (const CLI::Error&) {
    complain(fmt::format("cannot read '{}': check that it exists, and that this user may", file));
  }
}

/// Options that were given already are left alone; those set here run their own checks later.
void apply(CLI::App& app, const std::string& file) {
  for (const CLI::ConfigItem& item : read(file)) {
    const bool mine = item.parents.empty() || item.parents.front() == app.get_name();
    if (!mine || item.name == "++" || item.name == "--") // another section; a section's edges
      continue;
    auto* option = app.get_option_no_throw("--" + item.name);
    if (!option || item.name == "help" || item.name == "config")
      complain(fmt::format("'{}' sets '{}', which is no option: see paceline {} --help", file,
                           item.name, app.get_name()));
    if (option->count() > 0)
      continue;
    if (option->get_expected_max() == 0) { // a flag
      const std::string value = item.inputs.empty() ? "true" : item.inputs.front();
      if (value != "true" && value != "false")
        complain(fmt::format("'{}' sets the flag '{}' to '{}': give true or false", file, item.name,
                             value));
      if (value == "true")
        option->add_result("true");
    } else {
      option->add_result(item.inputs);
    }
  }
}

} // namespace

void add_configuration_option(CLI::App& app) {
  // The first option's callback is the first to run: the others then see what it added.
  app.add_option_function<std::string>(
         "--config", [&app](const std::string& file) { apply(app, file); },
         "Options from a file (TOML): name = value, one a line; the command line goes first")
      ->type_name("FILE");
}

} // namespace paceline::apps
