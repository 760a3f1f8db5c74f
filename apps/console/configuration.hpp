// Options from a file.
#pragma once

#include <CLI/CLI.hpp>

namespace paceline::apps {

/// Adds --config FILE (TOML or INI), whose options count unless the command line gives them. Their
/// names are the long options' without the dashes. To be added before all other options.
void add_configuration_option(CLI::App& app);

} // namespace paceline::apps
