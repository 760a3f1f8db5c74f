// A placement as a file, which `paceline plan` writes and servers read.
#pragma once

#include "apps/console/plan/input.hpp"
#include "placement/placement.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::plan {

/// All that is needed to serve, with names instead of indices, and the expected times.
struct PlacementFile {
  struct Model {
    std::string name;
    std::string checkpoint;                  ///< Empty: none was named.
    std::string draft;                       ///< Empty: none was named.
    double latency_seconds = 0;              ///< Latency of a request on one device.
    std::uint64_t memory_bytes = 0;          ///< Memory on a device that has only this model.
    std::optional<double> objective_seconds; ///< None: a request may take any time.
    std::vector<double> batch_growth = {};   ///< StageCosts::growth on one device.
    bool operator==(const Model&) const = default;
  };
  struct Hosted {
    std::string model;
    std::vector<double> stage_seconds;     ///< Times that the plan expects of a request alone,
    std::vector<double> batch_growth = {}; ///< and by how much they grow (StageCosts::growth).
    bool operator==(const Hosted&) const = default;
  };
  struct Group {
    std::vector<std::string> devices; ///< Names of the devices, stage by stage.
    placement::Shape shape;
    std::vector<Hosted> models;
    bool operator==(const Group&) const = default;
  };

  std::vector<std::string> devices;      ///< Names of all devices, which are of one kind.
  std::uint64_t device_memory_bytes = 0; ///< Memory of each device.
  double contention = 1;                 ///< placement::Devices::contention
  std::vector<Model> models;
  std::vector<Group> groups; ///< Groups that host a model.
  bool operator==(const PlacementFile&) const = default;
};

PlacementFile placement_file(const Input& input, const placement::Placement& placement);

std::string to_text(const PlacementFile& file);
/// Parses a placement. name: the file's name, for errors, which name the line: of fields that are
/// missing or unknown, of devices in two groups, of too few or too many for a shape, or not listed,
/// of models that are not listed.
Result<PlacementFile> parse_placement(const std::string& text, const std::string& name);

} // namespace paceline::apps::plan
