#include "placement/planner.hpp"

#include "placement/limits.hpp"
#include "placement/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

namespace paceline::placement {
namespace {

/// The breadth of a search says how many of the results of each step are followed further.
struct Breadth {
  std::size_t layouts;    ///< Best layouts of each bucket.
  std::size_t ways;       ///< Ways to divide models and devices, each followed by beams.
  std::size_t placements; ///< Placements that random changes improve.
  int patience;           ///< Multiple of PlanOptions::trials that each of them gets.
};

/// Returns how broad the search is; a few devices are simulated in no time.
constexpr Breadth breadth(int devices) {
  return devices <= limits::mixed_devices_max ? Breadth{64, 32, 32, 16} : Breadth{6, 8, 4, 1};
}

/// A placement that serves all is tried with traffic that comes faster by this factor, over and
/// over.
constexpr double harder = 1.3;
constexpr int harder_times = 12;

/// A part is a bucket on a number of devices, as a problem of its own.
struct Part {
  Bucket models;
  Problem problem;
  Workload workload;
  std::vector<std::vector<Shape>> layouts;
  std::vector<Selection> selections; ///< One selection for each layout.

  std::vector<std::size_t> ranked; ///< Layouts, those whose selections are best first.

  void rank() {
    ranked.resize(selections.size());
    std::iota(ranked.begin(), ranked.end(), std::size_t(0));
    std::stable_sort(ranked.begin(), ranked.end(), [&](std::size_t a, std::size_t b) {
      return selections[a].score.better_than(selections[b].score);
    });
  }
  double served(std::size_t layout) const {
    return selections[layout].score.attainment * double(workload.arrivals.size());
  }
};

/// A division names the part, with its number of devices, of each bucket.
using Division = std::vector<std::size_t>;

/// A way is a division in which each part has its layout of this rank.
struct Way {
  const Division* division;
  std::size_t rank;
  double served;
};

class Planner {
public:
  Planner(const Problem& problem, const Workload& workload, const PlanOptions& options)
      : problem_(problem), workload_(workload), options_(options),
        breadth_(breadth(problem.devices.count)) {}

  /// Returns the selections that were found, the best first.
  std::vector<Selection> run() {
    divide();
    fill_layouts();
    std::vector<Selection> best = follow(best_ways());
    return improve_best(std::move(best));
  }

private:
  void divide() {
    if (!options_.groups.empty()) {
      parts_.push_back(part_of(bucketings(problem_).front().front(), problem_.devices.count));
      parts_.front().layouts = {options_.groups};
      parts_.front().selections.resize(1);
      divisions_.push_back(Division{0});
      return;
    }
    std::map<std::pair<Bucket, int>, std::size_t> known;
    for (const auto& buckets : bucketings(problem_))
      for (const auto& share : shares(problem_, workload_, buckets, problem_.devices.count)) {
        Division division;
        for (std::size_t b = 0; b < buckets.size(); ++b) {
          const auto [part, added] = known.try_emplace({buckets[b], share[b]}, parts_.size());
          if (added)
            parts_.push_back(part_of(buckets[b], share[b]));
          division.push_back(part->second);
        }
        divisions_.push_back(std::move(division));
      }
  }

  Part part_of(const Bucket& models, int devices) const {
    Part part{models, {{}, problem_.devices}, only(workload_, models), {}, {}, {}};
    for (const int model : models)
      part.problem.models.push_back(problem_.models[std::size_t(model)]);
    part.problem.devices.count = devices;
    part.layouts = layouts(part.problem, devices, options_.bounds);
    part.selections.resize(part.layouts.size());
    return part;
  }

  /// Fills all layouts. The first of all, single devices, is filled whatever `stop` says.
  void fill_layouts() {
    std::vector<std::pair<Part*, std::size_t>> all;
    for (Part& part : parts_)
      for (std::size_t i = 0; i < part.layouts.size(); ++i)
        all.push_back({&part, i});
    in_parallel("groups", all.size(), [&](std::size_t i) {
      auto& [part, layout] = all[i];
      if (i == 0 || !options_.stop())
        part->selections[layout] = select(*part, layout, 1);
    });
    for (Part& part : parts_)
      part.rank();
  }

  Selection select(const Part& part, std::size_t layout, int beam) const {
    return select_models(part.problem, empty_groups(part.layouts[layout]), part.workload, beam,
                         options_.stop);
  }

  std::vector<Way> best_ways() const {
    std::vector<Way> ways;
    for (const Division& division : divisions_)
      for (std::size_t rank = 0; rank < breadth_.layouts; ++rank) {
        Way way{&division, rank, 0};
        bool there = true;
        for (const std::size_t index : division) {
          const Part& part = parts_[index];
          there = there && rank < part.ranked.size();
          way.served += there ? part.served(part.ranked[rank]) : 0;
        }
        if (there)
          ways.push_back(way);
      }
    std::stable_sort(ways.begin(), ways.end(),
                     [](const Way& a, const Way& b) { return a.served > b.served; });
    ways.resize(std::min(ways.size(), breadth_.ways));
    return ways;
  }

  /// Returns, for each way, the better of what was found and of what a beam finds there; and the
  /// seeds.
  std::vector<Selection> follow(const std::vector<Way>& ways) {
    std::vector<Selection> all(ways.size());
    in_parallel("models", all.size(), [&](std::size_t i) {
      all[i] = whole(ways[i], 1);
      if (options_.stop())
        return;
      Selection other = whole(ways[i], options_.beam);
      other.simulations += all[i].simulations;
      if (other.score.better_than(all[i].score))
        all[i] = std::move(other);
      else
        all[i].simulations = other.simulations;
    });
    for (const Placement& seed : options_.seeds)
      all.push_back(scored(seed));
    return all;
  }

  /// Puts the parts' placements side by side. beam 1: as they were found.
  Selection whole(const Way& way, int beam) const {
    Selection all;
    int device = 0;
    for (const std::size_t index : *way.division) {
      const Part& part = parts_[index];
      const std::size_t layout = part.ranked[way.rank];
      const Selection found = beam > 1 ? select(part, layout, beam) : part.selections[layout];
      all.simulations += beam > 1 ? found.simulations : 0;
      append(all.placement, found.placement, part, device);
      device += part.problem.devices.count;
    }
    const std::size_t simulations = all.simulations;
    all = scored(std::move(all.placement));
    all.simulations += simulations;
    return all;
  }

  Selection scored(Placement placement) const {
    const Score of = score(simulate(problem_, placement, workload_));
    return {std::move(placement), of, 1};
  }

  static void append(Placement& all, const Placement& found, const Part& part, int device) {
    for (Group group : found.groups) {
      for (int& one : group.devices)
        one += device;
      for (int& model : group.models)
        model = part.models[std::size_t(model)];
      all.groups.push_back(std::move(group));
    }
  }

  std::vector<Selection> improve_best(std::vector<Selection> all) {
    std::size_t simulations = 0;
    for (const Part& part : parts_)
      for (const Selection& selection : part.selections)
        simulations += selection.simulations;
    for (Selection& selection : all)
      simulations += std::exchange(selection.simulations, 0);
    sort(all);
    all.resize(std::min(all.size(), breadth_.placements));
    in_parallel("improvements", all.size(), [&](std::size_t i) {
      all[i] = improve(problem_, std::move(all[i]), workload_, options_.trials * breadth_.patience,
                       options_.seed, options_.stop);
    });
    for (const Selection& selection : all)
      simulations += selection.simulations;
    sort(all);
    all.front().simulations = simulations;
    return all;
  }

  static void sort(std::vector<Selection>& all) {
    std::stable_sort(all.begin(), all.end(), [](const Selection& a, const Selection& b) {
      return a.score.better_than(b.score);
    });
  }

  template <class Work>
  void in_parallel(const char* part, std::size_t count, const Work& work) {
    std::size_t done = 0;
    for_each_index(count, options_.threads, [&](std::size_t i) {
      work(i);
      const std::lock_guard lock(telling_);
      if (options_.progress)
        options_.progress(part, double(++done) / double(count));
    });
  }

  const Problem& problem_;
  const Workload& workload_;
  const PlanOptions& options_;
  const Breadth breadth_;
  std::vector<Part> parts_;
  std::vector<Division> divisions_;
  std::mutex telling_;
};

/// Makes the traffic faster by the factor `harder`.
void hasten(Workload& workload) {
  for (Arrival& arrival : workload.arrivals)
    arrival.seconds /= harder;
  workload.seconds /= harder;
}

/// Returns the selection that serves most of the validation's traffic; of equals the first.
Selection best_of(const Problem& problem, const Workload& workload, const PlanOptions& options,
                  std::vector<Selection> all) {
  std::vector<double> served(all.size());
  for_each_index(all.size(), options.threads, [&](std::size_t i) {
    served[i] = double(simulate(problem, all[i].placement, workload).latencies.size());
    for (const Workload& other : options.validation)
      served[i] += double(simulate(problem, all[i].placement, other).latencies.size());
  });
  const auto best = std::max_element(served.begin(), served.end()) - served.begin();
  return std::move(all[std::size_t(best)]);
}

} // namespace

Selection plan(const Problem& problem, const Workload& workload, const PlanOptions& options) {
  std::vector<Selection> best = Planner(problem, workload, options).run();
  std::size_t simulations = best.front().simulations;
  Workload faster = workload;
  int times = 0;
  while (best.front().score.attainment == 1 && !options.stop()) {
    do { // until there is something to gain
      hasten(faster);
      ++simulations;
    } while (++times < harder_times &&
             simulate(problem, best.front().placement, faster, 0).attainment() == 1);
    PlanOptions with_best = options;
    with_best.seeds.push_back(best.front().placement);
    Selection next = std::move(Planner(problem, faster, with_best).run().front());
    const bool all_served = next.score.attainment == 1;
    simulations += next.simulations + 1;
    next.score = score(simulate(problem, next.placement, workload));
    if (next.score.attainment == 1)
      best.insert(best.begin(), std::move(next));
    if (!all_served || times >= harder_times)
      break;
  }
  if (!options.validation.empty()) {
    for (const Placement& seed : options.seeds)
      best.push_back({seed, score(simulate(problem, seed, workload)), 0});
    simulations += best.size() * (options.validation.size() + 1);
    best = {best_of(problem, workload, options, std::move(best))};
  }
  best.front().simulations = simulations;
  return std::move(best.front());
}

} // namespace paceline::placement
