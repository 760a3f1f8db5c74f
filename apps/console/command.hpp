// The program's subcommands, each of which adds its options to the program and says how it is run.
#pragma once

#include "apps/console/exit_status.hpp"
#include "apps/console/interrupt.hpp"
#include "paceline/error.hpp"

#include <CLI/CLI.hpp>
#include <functional>

namespace paceline::apps {

struct Command {
  CLI::App* app = nullptr;
  /// Called once, after parsing, if the user chose this command; returns the exit status.
  std::function<Result<int>(Interrupt&)> run;
};

Command add_generate(CLI::App& program);
Command add_chat(CLI::App& program);
Command add_completion(CLI::App& program);
Command add_conformance(CLI::App& program);
Command add_demo(CLI::App& program);
Command add_help(CLI::App& program);
Command add_bench(CLI::App& program);
Command add_race(CLI::App& program);
Command add_score(CLI::App& program);
Command add_tokenize(CLI::App& program);
Command add_inspect(CLI::App& program);
Command add_quantize(CLI::App& program);
Command add_pull(CLI::App& program);
Command add_list(CLI::App& program);
Command add_rm(CLI::App& program);
Command add_plan(CLI::App& program);
Command add_serve(CLI::App& program);
Command add_node(CLI::App& program);
Command add_theory(CLI::App& program);

} // namespace paceline::apps
