#include "apps/terminal/inspect/division.hpp"

#include "actors/option_check.hpp"
#include "apps/console/output.hpp"
#include "apps/console/steady_time.hpp"
#include "gpu/device.hpp"
#include "models/load.hpp"
#include "models/sources.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <memory>

namespace paceline::apps {
namespace {

using Place = DividedModel::Place;

models::LoadOptions load_options(const EngineOptions& engine) {
  models::LoadOptions options = models::load_formats(engine, "target");
  options.stage_layers = engine.stage_layers;
  return options;
}

Result<std::vector<models::DevicePart>> read_parts(const EngineOptions& engine,
                                                   std::size_t stages) {
  return models::open_checkpoint(engine.target, "target").and_then([&](const auto& source) {
    return models::parts_of(*source, stages, engine.tensor_parallel_size, load_options(engine));
  });
}

/// Bytes that weights and one token take of a place's memory, which places on the host share.
struct Taken {
  std::size_t weights = 0;
  std::size_t token = 0;
};

Taken taken_beside(const std::vector<Place>& places, const Place& place) {
  Taken taken;
  for (const Place& other : places)
    if (&other == &place || (other.on_host && place.on_host)) {
      taken.weights += other.part.weight_bytes;
      taken.token += other.part.token_bytes;
    }
  return taken;
}

std::size_t tokens_in(const std::vector<Place>& places) {
  std::size_t tokens = std::numeric_limits<std::size_t>::max();
  for (const Place& place : places) {
    const Taken taken = taken_beside(places, place);
    const std::size_t left = place.available - std::min(place.available, taken.weights);
    tokens = std::min(tokens, left / 4 / taken.token);
  }
  return tokens;
}

Result<Place> open_place(const std::string& name) {
  const auto device = gpu::open_device(name, {1, std::make_shared<SteadyTime>(), nullptr});
  if (!device)
    return tl::unexpected(device.error());
  Place place;
  place.device = (*device)->name();
  place.available = (*device)->memory().available;
  place.on_host = (*device)->on_host();
  return place;
}

} // namespace

Result<DividedModel> divide_model(const EngineOptions& engine) {
  if (auto checked = actors::check_options(engine); !checked)
    return tl::unexpected(checked.error());
  const std::vector<std::string>& devices = engine.devices;
  const int shards = engine.tensor_parallel_size;
  const auto parts = read_parts(engine, devices.size() / std::size_t(shards));
  if (!parts)
    return tl::unexpected(parts.error());
  DividedModel model;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    auto place = open_place(devices[i]);
    if (!place)
      return tl::unexpected(place.error());
    place->stage = int(i) / shards + 1;
    place->shard = int(i) % shards + 1;
    place->part = (*parts)[i];
    model.places.push_back(std::move(*place));
  }
  model.kv_tokens = tokens_in(model.places);
  return model;
}

boost::json::object division_json(const DividedModel& model) {
  boost::json::array devices;
  for (const Place& place : model.places)
    devices.push_back({{"device", place.device},
                       {"stage", place.stage},
                       {"shard", place.shard},
                       {"first_layer", place.part.layers.first},
                       {"layers", place.part.layers.count},
                       {"weight_bytes", place.part.weight_bytes},
                       {"kv_bytes_per_token", place.part.token_bytes},
                       {"kv_bytes", model.kv_bytes(place)},
                       {"available_bytes", place.available}});
  return {{"kv_tokens", model.kv_tokens}, {"devices", std::move(devices)}};
}

std::string division_text(const DividedModel& model) {
  Table table({"device", "stage", "shard", "layers", "weights", "KV a token", "KV cache", "free"});
  for (const Place& place : model.places)
    table.add({place.device, std::to_string(place.stage), std::to_string(place.shard),
               fmt::format("{}-{}", place.part.layers.first, place.part.layers.end() - 1),
               human_bytes(place.part.weight_bytes), human_bytes(place.part.token_bytes),
               human_bytes(model.kv_bytes(place)), human_bytes(place.available)});
  return "target over its devices\n" + table.text() +
         (model.kv_tokens > 0
              ? fmt::format("KV cache: {} tokens, unless --kv-memory says otherwise\n",
                            model.kv_tokens)
              : "the weights leave no room for keys and values: give more devices, or --weights a "
                "smaller format\n");
}

} // namespace paceline::apps
