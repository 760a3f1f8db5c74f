// What `paceline plan` is asked for, from a TOML file.
#pragma once

#include "placement/model.hpp"
#include "placement/workload.hpp"

#include <cstdint>
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

/// docs/placement.md says what stands in such a file. Errors name file, line and field.
Result<Input> read_input(const std::string& file);
/// The same from a text. A trace's path is taken from the folder of `file`.
Result<Input> parse_input(const std::string& text, const std::string& file);

} // namespace paceline::apps::plan
