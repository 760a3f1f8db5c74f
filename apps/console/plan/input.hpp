// What `paceline plan` is asked for, from a TOML file.
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
  std::vector<std::string> checkpoints;     ///< By model; empty: none was named.
  std::vector<std::string> drafts;          ///< Likewise: what drafts for it.
  std::vector<placement::Traffic> traffic;  ///< By model; with a trace, none.
  std::optional<placement::Workload> trace; ///< In the place of traffic.
  double seconds = 120;                     ///< Of each simulated run.
  std::uint64_t seed = 0;

  /// What the plan is made for.
  placement::Workload workload() const;
  /// Other draws of the same traffic; of a trace, pieces.
  std::vector<placement::Workload> runs(int count) const;
  /// And others, to choose between plans by; of a trace there are none.
  std::vector<placement::Workload> validation(int count) const;

private:
  std::vector<placement::Workload> draws(int count, std::uint64_t first) const;
};

/// A model of the file, and what a request for it is like.
struct Measurable {
  std::string checkpoint;
  std::string draft; ///< Empty: as `serve` chooses.
  int prompt_tokens = 0;
  int output_tokens = 0;
  std::vector<std::string> devices; ///< All there are.
};
/// Seconds of each stage by shape; 1x1 is there.
using Costs = std::map<placement::Shape, std::vector<double>>;
using Measure = std::function<Result<Costs>(const Measurable&)>;

/// docs/placement.md says what stands in such a file. measure: gives the costs of models with a
/// checkpoint; empty: the file does. Errors name file, line and field.
Result<Input> read_input(const std::string& file, const Measure& measure = nullptr);
/// The same from a text. A trace's path is taken from the folder of `file`.
Result<Input> parse_input(const std::string& text, const std::string& file,
                          const Measure& measure = nullptr);

} // namespace paceline::apps::plan
