// The input of `paceline plan`, from a TOML file.
#pragma once

#include "paceline/error.hpp"
#include "placement/model.hpp"
#include "placement/workload.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::plan {

struct Input {
  placement::Problem problem;
  std::vector<std::string> device_names;
  std::vector<std::string> checkpoints;     ///< Checkpoints by model; empty: none was named.
  std::vector<std::string> drafts;          ///< Drafts by model; empty: none was named.
  std::vector<placement::Traffic> traffic;  ///< Traffic by model; empty if there is a trace.
  std::optional<placement::Workload> trace; ///< A trace in place of traffic.
  double seconds = 120;                     ///< Duration of each simulated run.
  std::uint64_t seed = 0;

  /// Returns the workload that the plan is made for.
  placement::Workload workload() const;
  /// Returns other draws of the same traffic, or pieces of the trace.
  std::vector<placement::Workload> runs(int count) const;
  /// Returns further draws, to choose between plans by; a trace has none.
  std::vector<placement::Workload> validation(int count) const;

private:
  std::vector<placement::Workload> draws(int count, std::uint64_t first) const;
};

/// A model of the file, and the requests that it is measured with.
struct Measurable {
  std::string checkpoint;
  std::string draft; ///< Empty: the one that `serve` chooses.
  int prompt_tokens = 0;
  int output_tokens = 0;
  std::vector<std::string> devices; ///< Names of all devices.
};
/// Costs by shape; 1x1 is always among them.
using Costs = std::map<placement::Shape, placement::StageCosts>;

/// Measures what the file need not say; functions that are empty measure nothing.
struct Measure {
  /// Returns the costs of a model with a checkpoint.
  std::function<Result<Costs>(const Measurable&)> costs;
  /// Returns placement::Devices::contention of such models, at least two.
  std::function<Result<double>(const std::vector<Measurable>&)> contention;
};

/// Reads a file of the form in docs/placement.md. Errors name file, line and field.
Result<Input> read_input(const std::string& file, const Measure& measure = {});
/// Reads the same from a text. A trace's path is relative to the folder of `file`.
Result<Input> parse_input(const std::string& text, const std::string& file,
                          const Measure& measure = {});

} // namespace paceline::apps::plan
