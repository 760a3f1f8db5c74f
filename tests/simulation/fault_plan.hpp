// What goes wrong in a run: named probabilities.
#pragma once

#include "base/clock.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace paceline::testing {

/// What of a run's engine is on other machines.
enum class Elsewhere {
  nothing,
  draft,   ///< On one.
  several, ///< Stages of the target, each on a machine, with a reserve or not; maybe the draft,
           ///< too.
};

/// All that a run may meet. Probabilities are per occasion: per message, piece of a lane's work,
/// allocation, row. Zero: never.
struct FaultPlan {
  // Actors. `kill` and `kill_after` ask before, and after, each message of kind `victim`.
  double kill = 0;
  double kill_after = 0;
  double kill_anybody = 0; ///< Before any message, whoever it is for.
  double kill_supervisor = 0;

  // Messages. Late and repeated are those that actors promise to bear (message_kinds.hpp).
  double late = 0;
  double repeated = 0;
  double held_up = 0; ///< An actor's thread stands still.

  // Lanes.
  double slow = 0;    ///< A piece takes ten times as long.
  double stalled = 0; ///< A piece takes minutes, and then wakes.
  double stuck = 0;   ///< A piece takes days.
  double failing = 0; ///< A piece throws.
  double lost = 0;    ///< It throws, and so does whatever comes after it on that device.

  // Devices and models.
  double refused_memory = 0;
  double lying_token = 0;  ///< The draft shows a token that it did not draw.
  double absurd_token = 0; ///< And one that does not exist.
  double lying_q = 0;      ///< The draft shows a q that is none (NaN, negative, too much mass).
  double nan_row = 0;      ///< The target computes NaN.

  // The way to a node, and the node; per piece of bytes that is sent.
  double cut = 0;       ///< The connection ends, maybe within a frame.
  double parted = 0;    ///< For a while nothing gets through, both ways or one.
  double half_open = 0; ///< It is gone, and no end hears of it, or the engine does not.
  double frozen = 0;    ///< The node stands still for a while.
  double rebooted = 0;  ///< The node dies, and knows nothing when it is back.
  double exchanged = 0; ///< The same, and for a while it has another model.

  // Time.
  double leap = 0; ///< The clock jumps ahead, before a message.

  int victim = 0;     ///< Index of a message kind.
  int faults_max = 0; ///< In all; afterwards nothing goes wrong.

  bool any() const;
  /// Nothing but messages that come late, or again: nobody dies of that.
  bool spares_all() const;
  /// Some kind of it takes time by itself.
  bool delays() const;
  std::string text() const;
};

/// The plan's probabilities by name, for printing and shrinking.
struct FaultField {
  const char* name;
  double FaultPlan::*probability;
};
std::span<const FaultField> fault_fields();
/// Returns those of them that need no node.
std::span<const FaultField> local_fault_fields();

/// A plan of one to three kinds of fault, a function of the seed. A few have none at all. With
/// other machines these are their kinds, with another one beside them in half of the plans.
FaultPlan draw_plan(std::uint64_t seed, Elsewhere elsewhere = Elsewhere::nothing);

} // namespace paceline::testing
