#include "placement/baselines.hpp"

#include "placement/cost.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace paceline::placement {
namespace {

Placement single_devices(const Problem& problem) {
  return empty_groups(std::vector<Shape>(std::size_t(problem.devices.count), Shape{1, 1}));
}

/// Returns, among models that fit on a device, the one with most work for each device it has.
int neediest(const Problem& problem, const std::vector<double>& work,
             const std::vector<int>& devices) {
  int best = -1;
  double most = -1;
  for (std::size_t m = 0; m < work.size(); ++m)
    if (const double each = work[m] / (devices[m] + 1e-9);
        problem.models[m].memory_bytes <= problem.devices.memory_bytes && each > most) {
      best = int(m);
      most = each;
    }
  return best;
}

/// A window of the run that has requests; their times are those of the whole run.
struct Window {
  double number; ///< Place in the run, counted from 0.
  Workload workload;
};

/// Returns the windows with requests: these decide how many windows there are, not the clock.
std::vector<Window> windows_of(const Workload& workload, double seconds) {
  std::vector<Window> windows;
  for (const Arrival& arrival : workload.arrivals) {
    const double number = std::floor(arrival.seconds / seconds);
    if (windows.empty() || number > windows.back().number)
      windows.push_back({number, {(number + 1) * seconds, {}}});
    windows.back().workload.arrivals.push_back(arrival);
  }
  return windows;
}

} // namespace

Placement one_per_device(const Problem& problem, const Workload& workload) {
  std::vector<double> work(problem.models.size(), 1e-9);
  for (const Arrival& arrival : workload.arrivals)
    work[std::size_t(arrival.model)] += problem.models[std::size_t(arrival.model)].latency_seconds;
  std::vector<int> devices(problem.models.size(), 0);
  Placement placement = single_devices(problem);
  for (Group& group : placement.groups)
    if (const int model = neediest(problem, work, devices); model >= 0) {
      group.add(model);
      ++devices[std::size_t(model)];
    }
  return placement;
}

Selection replicate_selectively(const Problem& problem, const Workload& workload, int beam,
                                const Stop& stop) {
  return select_models(problem, single_devices(problem), workload, beam, stop);
}

Placement round_robin(const Problem& problem) {
  std::vector<Shape> shapes;
  for (int left = problem.devices.count; left > 0; left -= shapes.back().devices())
    shapes.push_back({left >= 4 ? 4 : left >= 2 ? 2 : 1, 1});
  Placement placement = empty_groups(shapes);
  const std::size_t count = placement.groups.size();
  std::size_t next = 0;
  for (bool placed = true; placed;) {
    placed = false;
    for (int model = 0; model < int(problem.models.size()); ++model)
      for (std::size_t tried = 0; tried < count; ++tried) {
        Group& group = placement.groups[next++ % count];
        if (group.hosts(model) || !has_room(group, model, problem))
          continue;
        group.add(model);
        placed = true;
        break;
      }
  }
  return placement;
}

Outcome replace_in_windows(const Problem& problem, const Placement& first, const Workload& workload,
                           double window_seconds, const Stop& stop) {
  Outcome all;
  Placement placement = first;
  Dispatcher before(problem, placement);
  const auto replace = [&](const Workload& seen) {
    if (!stop())
      placement = replicate_selectively(problem, seen, 1, stop).placement;
  };
  double next = 0;
  for (const Window& window : windows_of(workload, window_seconds)) {
    if (window.number > next) // one call stands for any number of empty windows
      replace({});
    Dispatcher dispatcher(problem, placement);
    dispatcher.go_on_from(before);
    all.append(simulate(dispatcher, problem, window.workload));
    before = std::move(dispatcher);
    replace(window.workload);
    next = window.number + 1;
  }
  return all;
}

} // namespace paceline::placement
