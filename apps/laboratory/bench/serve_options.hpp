// The options of `bench serve`.
#pragma once

#include "apps/laboratory/bench/scale.hpp"
#include "apps/laboratory/load/http_target.hpp"
#include "apps/laboratory/load/objective.hpp"
#include "apps/laboratory/load/plan.hpp"
#include "apps/laboratory/load/server_options.hpp"
#include "paceline/engine.hpp"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace paceline::apps {

struct ServeOptions {
  EngineOptions engine;
  Request request;
  ScaleOptions scale;
  std::vector<const CLI::Option*> of_engine; ///< Options that only an engine here has.

  load::ServerOptions server; ///< Without a base_url: an engine in this process.
  load::Api api = load::Api::completions;
  std::string served_model_name;

  load::PlanOptions plan;
  int max_concurrency = 0;

  std::vector<load::LatencyLimit> goodput;
  bool find_capacity = false;
  std::vector<load::Objective> objectives;
  double precision = 0.05;
  std::string svg_file;
  std::string result_file;
  bool detailed = false;
  bool json = false;
};

/// Adds all options, bound to `options`, which must outlive the parsing.
void add_bench_serve_options(CLI::App& app, ServeOptions& options);

} // namespace paceline::apps
