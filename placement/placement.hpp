// Says which devices form groups, and which models lie on them.
#pragma once

#include "paceline/error.hpp"
#include "placement/model.hpp"

#include <cstdint>
#include <vector>

namespace paceline::placement {

struct Group {
  std::vector<int> devices; ///< Indices, stage by stage, `shape.tensor` for each.
  Shape shape;
  std::vector<int> models; ///< Indices, each once, growing.

  bool hosts(int model) const;
  void add(int model);
  void remove(int model);
  bool operator==(const Group&) const = default;
};

struct Placement {
  std::vector<Group> groups;
  /// Says whether any group hosts the model.
  bool hosts(int model) const;
  bool operator==(const Placement&) const = default;
};

/// Returns the bytes that are used on each device of a group.
std::uint64_t bytes_per_device(const Group& group, const Problem& problem);
/// Says whether the group's devices have room for `model`, too.
bool has_room(const Group& group, int model, const Problem& problem);
/// Says the same of a group in a placement whose groups may share devices, as they do where one
/// comes in place of others.
bool has_room(const Placement& placement, std::size_t group, int model, const Problem& problem);
/// Says whether an idle group of that shape answers the model's requests in time.
bool in_time(Shape shape, int model, const Problem& problem);

/// Returns groups with these shapes and no models, on devices `first`, first + 1, ...
Placement empty_groups(const std::vector<Shape>& shapes, int first = 0);

/// Checks a placement. Errors (`invalid_argument`): a device that is not there or in two groups, a
/// group with too few or too many devices for its shape, a model that is not there or twice in a
/// group, more than a device's memory.
Result<void> check(const Placement& placement, const Problem& problem);

} // namespace paceline::placement
