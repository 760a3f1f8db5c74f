#include "apps/laboratory/load/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::apps::load {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// Rates from `first` divided by this to `first` times this are tried; beyond, all requests at
/// once.
constexpr double reach = 1024;

class Search {
public:
  Search(const RunAtRate& run, const std::vector<Objective>& objectives)
      : run_(run), objectives_(objectives) {}

  Capacity find(double first, double precision) {
    double low = 0;         // Highest rate that kept the objectives.
    double high = infinity; // Lowest rate that did not.
    for (double rate = first; !found_.interrupted; rate = next(first, low, high)) {
      (keeps(rate) ? low : high) = rate;
      const bool near = low > 0 && high / low <= 1 + precision;
      if (near || rate == infinity || rate < first / reach)
        break;
    }
    found_.rate = low;
    return std::move(found_);
  }

private:
  static double next(double first, double low, double high) {
    if (low == 0)
      return high / 2;
    if (high == infinity)
      return low * 2 <= first * reach ? low * 2 : infinity;
    return std::sqrt(low * high);
  }

  bool keeps(double rate) {
    auto figures = run_(rate);
    if (!figures) {
      found_.interrupted = true;
      return false;
    }
    const bool kept = figures->failed == 0 && figures->completed > 0 &&
                      std::ranges::all_of(objectives_, [&](const Objective& objective) {
                        return objective.kept_by(*figures);
                      });
    found_.trials.push_back({rate, kept, std::move(*figures)});
    return kept;
  }

  const RunAtRate& run_;
  const std::vector<Objective>& objectives_;
  Capacity found_;
};

} // namespace

Capacity find_capacity(const RunAtRate& run, const std::vector<Objective>& objectives, double first,
                       double precision) {
  return Search(run, objectives).find(first, precision);
}

} // namespace paceline::apps::load
