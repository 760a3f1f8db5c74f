// Each device's part of a model in stages and shards, computed without loading.
#pragma once

#include "models/stages.hpp"
#include "paceline/engine.hpp"

#include <boost/json/object.hpp>
#include <string>
#include <vector>

namespace paceline::apps {

struct DividedModel {
  struct Place {
    std::string device;
    int stage = 0; ///< Numbered from 1, as in traces.
    int shard = 0; ///< Number within its stage, from 1.
    models::DevicePart part;
    std::size_t available = 0; ///< Bytes of its memory that are free now.
    bool on_host = false;      ///< Whether its memory is the host's, which such devices share.
  };
  std::vector<Place> places; ///< Places in the order of EngineOptions::devices.
  /// Tokens that an engine would have pages for if --kv-memory is not given: a quarter of what the
  /// weights leave, on the place that has least. 0: they leave nothing.
  std::size_t kv_tokens = 0;

  std::size_t kv_bytes(const Place& place) const { return kv_tokens * place.part.token_bytes; }
};

/// Divides a model. engine: target, its devices, their stages and shards, and the weights' format.
/// Errors: those of opening an engine on these devices.
Result<DividedModel> divide_model(const EngineOptions& engine);

/// Returns the object of docs/program.md.
boost::json::object division_json(const DividedModel& model);
std::string division_text(const DividedModel& model);

} // namespace paceline::apps
