// Options from a file.
#pragma once

#include <CLI/CLI.hpp>

namespace paceline::apps {

/// --config FILE (TOML or INI): what the file says counts where the command line says nothing. Its
/// names are the long options' without the dashes. To be added before all other options.
void add_configuration_option(CLI::App& app);

} // namespace paceline::apps
