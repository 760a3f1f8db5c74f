#include "gpu/cpu/topology.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc.h>
#include <memory>
#include <thread>
#include <unistd.h>

namespace paceline::gpu::cpu {
namespace {

struct BitmapFree {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapFree>;

/// Returns whether Linux describes the processors. If not (a small container may lack /sys),
/// hwloc's Linux component finds nothing, and writes that to standard error.
bool linux_describes_cores() {
  return ::access("/sys/devices/system/cpu/cpu0/topology", R_OK) == 0 ||
         ::access("/sys/bus/cpu/devices/cpu0/topology", R_OK) == 0;
}

// The topology, loaded once, with cores only: caches and devices would cost time at every start.
class Topology {
public:
  Topology() {
    if (hwloc_topology_init(&topology_) != 0) {
      topology_ = nullptr;
      return;
    }
    hwloc_topology_set_all_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(topology_, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (!linux_describes_cores())
      hwloc_topology_set_components(topology_, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "linux");
    if (hwloc_topology_load(topology_) != 0) {
      hwloc_topology_destroy(topology_);
      topology_ = nullptr;
    }
  }
  ~Topology() {
    if (topology_)
      hwloc_topology_destroy(topology_);
  }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  static const Topology& get() {
    static const Topology instance;
    return instance;
  }
  hwloc_topology_t handle() const { return topology_; }

private:
  hwloc_topology_t topology_ = nullptr;
};

std::vector<Core> cores_without_topology() {
  std::vector<Core> cores;
  for (int i = 0; i < int(std::max(1u, std::thread::hardware_concurrency())); ++i)
    cores.push_back({i, i});
  return cores;
}

} // namespace

std::vector<Core> usable_cores() {
  hwloc_topology_t topology = Topology::get().handle();
  if (!topology)
    return cores_without_topology();
  const Bitmap bound(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_copy(bound.get(), hwloc_topology_get_allowed_cpuset(topology));
  std::vector<Core> cores;
  hwloc_obj_t unit = nullptr;
  while ((unit = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, unit))) {
    if (!hwloc_bitmap_isset(bound.get(), unit->os_index))
      continue;
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, unit);
    cores.push_back({int(unit->os_index), int(core ? core->logical_index : unit->logical_index)});
  }
  std::sort(cores.begin(), cores.end(), [](Core a, Core b) { return a.index < b.index; });
  return cores.empty() ? cores_without_topology() : cores;
}

Result<std::vector<Core>> select_cores(const std::vector<int>& named) {
  const std::vector<Core> usable = usable_cores();
  if (named.empty())
    return usable;
  std::vector<Core> selected;
  for (int index : named) {
    const auto at = std::find_if(usable.begin(), usable.end(),
                                 [&](const Core& core) { return core.index == index; });
    if (at == usable.end())
      return fail(ErrorCode::not_found, fmt::format("no core {} for a cpu device", index),
                  fmt::format("this process may use cores {}", core_list(usable)));
    selected.push_back(*at);
  }
  return selected;
}

std::vector<int> one_per_physical(const std::vector<Core>& cores) {
  std::vector<int> first;
  std::vector<int> seen;
  for (const Core& core : cores)
    if (std::find(seen.begin(), seen.end(), core.physical) == seen.end()) {
      seen.push_back(core.physical);
      first.push_back(core.index);
    }
  return first;
}

std::string core_list(const std::vector<Core>& cores) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1].index == cores[last].index + 1)
      ++last;
    runs.push_back(last > i ? fmt::format("{}-{}", cores[i].index, cores[last].index)
                            : fmt::format("{}", cores[i].index));
    i = last + 1;
  }
  return fmt::format("{}", fmt::join(runs, ","));
}

void bind_to_core(int index) {
  hwloc_topology_t topology = Topology::get().handle();
  if (!topology)
    return;
  const Bitmap set(hwloc_bitmap_alloc());
  hwloc_bitmap_only(set.get(), unsigned(index));
  hwloc_set_cpubind(topology, set.get(), HWLOC_CPUBIND_THREAD);
}

} // namespace paceline::gpu::cpu
