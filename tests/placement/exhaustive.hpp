// The best placement of a small problem, by trying all of them.
#pragma once

#include "placement/layouts.hpp"
#include "placement/selection.hpp"

#include <algorithm>

namespace paceline::testing {

/// All layouts of the devices into groups, and for each all sets of models that fit on each group.
class Exhaustive {
public:
  Exhaustive(const placement::Problem& problem, const placement::Workload& workload)
      : problem_(problem), workload_(workload) {}

  double attainment() {
    for (const auto& layout : placement::layouts(problem_, problem_.devices.count, {}))
      fill(placement::empty_groups(layout), 0);
    return best_;
  }

private:
  void fill(placement::Placement placement, std::size_t group) {
    if (group == placement.groups.size()) {
      best_ = std::max(best_, simulate(problem_, placement, workload_).attainment());
      return;
    }
    const int models = int(problem_.models.size());
    for (int set = 0; set < 1 << models && best_ < 1; ++set) {
      placement::Placement next = placement;
      for (int model = 0; model < models; ++model)
        if (set >> model & 1)
          next.groups[group].models.push_back(model);
      if (bytes_per_device(next.groups[group], problem_) <= problem_.devices.memory_bytes)
        fill(std::move(next), group + 1);
    }
  }

  const placement::Problem& problem_;
  const placement::Workload& workload_;
  double best_ = 0;
};

} // namespace paceline::testing
