// One run of `bench`: its options, and what is measured.
#pragma once

#include "apps/console/interrupt.hpp"
#include "apps/laboratory/bench/figures.hpp"
#include "apps/laboratory/bench/modes.hpp"
#include "apps/laboratory/bench/scale.hpp"

#include <CLI/CLI.hpp>
#include <string>

namespace paceline::apps {

struct BenchOptions {
  BenchOptions();

  EngineOptions engine;
  ModesPlan plan;           ///< Prompts and modes are filled in by run_bench.
  std::string prompts_file; ///< Empty: the built-in ones.
  int prompts = 32;
  ScaleOptions scale;
};

/// Adds --prompts, --num-prompts and --repetitions.
void add_workload_options(CLI::App& app, BenchOptions& options);

/// Measures every mode that makes sense with the draft, and the steps where they belong to one
/// device of its own.
Result<BenchReport> run_bench(const BenchOptions& options, Interrupt& interrupt);

} // namespace paceline::apps
