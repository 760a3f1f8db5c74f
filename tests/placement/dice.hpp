// Random placements, and what happens to them.
#pragma once

#include "placement/placement.hpp"
#include "placement/random.hpp"

#include <boost/random/exponential_distribution.hpp>
#include <boost/random/uniform_int_distribution.hpp>
#include <cstdint>
#include <vector>

namespace paceline::testing {

class Dice {
public:
  explicit Dice(std::uint64_t seed) : random_(seed, placement::Draws::moves, 0) {}
  std::size_t below(std::size_t n) {
    return boost::random::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  double exponential(double mean) {
    return boost::random::exponential_distribution<double>(1 / mean)(random_);
  }
  /// Whatever fits, at random: on groups of a device each, or on one of the first two devices in
  /// the place of theirs.
  placement::Placement placement(const placement::Problem& problem) {
    using namespace paceline::placement;
    Placement all = empty_groups(std::vector<Shape>(std::size_t(problem.devices.count), {1, 1}));
    const bool several = all.groups.size() > 1;
    if (several)
      all.groups.push_back({{0, 1}, {2, 1}, {}});
    const bool joined = several && below(2) == 0;
    for (std::size_t g = 0; g < all.groups.size(); ++g) {
      const bool replaced = several && (joined ? g < 2 : g + 1 == all.groups.size());
      for (std::size_t tried = 0; !replaced && tried < 2 * problem.models.size(); ++tried)
        if (const int model = int(below(problem.models.size()));
            !all.groups[g].hosts(model) && has_room(all, g, model, problem))
          all.groups[g].add(model);
    }
    return all;
  }

private:
  placement::Random random_;
};

} // namespace paceline::testing
