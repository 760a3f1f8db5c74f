// The output of `paceline theory`.
#pragma once

#include "apps/laboratory/bench/figures.hpp"
#include "apps/laboratory/theory/memory.hpp"
#include "apps/laboratory/theory/phases.hpp"
#include "apps/laboratory/theory/speculation.hpp"
#include "gpu/sim/data_sheet.hpp"

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::theory {

/// How many sequences fit into a memory.
struct Fit {
  double memory = 0;
  ModelBytes model;
  int length = 0;
  int chunk = 0; ///< Tokens of a prompt that one step reads.
  std::int64_t sequences() const { return sequences_that_fit(memory, model, length); }
};

/// A simulated device, whose profile says what steps take.
struct SimulatedDevice {
  std::string name;
  gpu::sim::Profile profile;
};

struct Report {
  Quantities quantities;
  std::vector<WindowGain> gains; ///< Those of `sweep`.
  int window = 0;                ///< The window asked for; 0: each mode's best.
  double row_cost = 0;           ///< Of v; with a measurement, between one row and two.
  std::vector<gpu::sim::DataSheet> sheets;
  std::optional<gpu::sim::DataSheet> here; ///< The target's device, as it was measured.
  std::vector<SimulatedDevice> simulated;
  std::optional<Fit> fit;
  std::optional<ModelBytes> sixteen_bits; ///< A model whose phases' intensities are shown.
  Batch largest; ///< Phases are shown for batches of up to so many sequences.
  std::optional<BenchReport> measured;
};

/// Returns a text for people.
std::string report_text(const Report& report);
/// Returns the object of docs/program.md.
boost::json::object report_json(const Report& report);

/// Draws the speed-up of `sync` over acceptance and draft cost, and all modes' over windows.
std::string theory_svg(const Report& report);

} // namespace paceline::apps::theory
