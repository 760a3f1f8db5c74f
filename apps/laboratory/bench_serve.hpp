// `bench serve`, the only command within another.
#pragma once

#include "apps/console/command.hpp"

namespace paceline::apps {

Command add_bench_serve(CLI::App& bench);

} // namespace paceline::apps
