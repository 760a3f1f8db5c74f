// A plan and its baselines, for people, for programs, and as a picture.
#pragma once

#include "apps/console/plan/input.hpp"
#include "placement/estimate.hpp"
#include "placement/selection.hpp"

#include <boost/json/object.hpp>
#include <string>
#include <vector>

namespace paceline::apps::plan {

struct Line {
  std::string name; ///< "plan", "selective replication"
  placement::Figures figures;
};

struct Report {
  placement::Selection selection;
  std::vector<Line> lines; ///< The first is the plan.
  int runs = 0;            ///< Number of runs that the figures come from.
  double planning_seconds = 0;
  std::string ended; ///< "complete", "time limit", "interrupted"
};

std::string report_text(const Input& input, const Report& report);
/// Returns an object with the keys of docs/placement.md.
boost::json::object report_json(const Input& input, const Report& report);

/// Draws which request is on which device at which time, at the beginning of a run.
std::string placement_svg(const Input& input, const placement::Placement& placement,
                          const placement::Workload& run);

} // namespace paceline::apps::plan
