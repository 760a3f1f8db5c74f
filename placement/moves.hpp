// Changes one placement into another while it serves, a model at a time.
#pragma once

#include "placement/placement.hpp"
#include "placement/selection.hpp"

#include <optional>

namespace paceline::placement {

struct Move {
  enum class Kind { load, unload };
  Kind kind;
  int group;
  int model;
  bool operator==(const Move&) const = default;
};

/// Returns what to do next so that `now` becomes `wanted`, which has the same groups; nothing when
/// they are equal. A model is loaded wherever there is room. Where there is no room, one is
/// unloaded that is wanted nowhere, or else has another place: only models that change places on
/// full devices are for a while on none. Groups may share devices. `wanted` fits, and so there
/// always is a next move.
std::optional<Move> next_move(const Problem& problem, const Placement& now,
                              const Placement& wanted);

/// Returns `wanted` with the contents of groups of one shape exchanged so that few models move from
/// `now`, which has the same groups.
Placement nearest(const Placement& now, Placement wanted);

/// Returns the placement with a place for each model that fits at all: where there is no room,
/// models that have several places give one up.
Placement with_all_models(const Problem& problem, Placement placement);

/// Says whether so much is gained that models should move for it: a hundredth more is served, or as
/// much in nine tenths of the time.
bool worth_moving(const Score& now, const Score& wanted);

} // namespace paceline::placement
