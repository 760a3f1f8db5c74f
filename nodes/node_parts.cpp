#include "nodes/node_parts.hpp"

#include "gpu/mx.hpp"
#include "models/identity.hpp"
#include "models/load.hpp"
#include "models/sources.hpp"
#include "nodes/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace paceline::nodes {

namespace {

/// Checks layers that an engine asks for, which is not trusted. Whether the model has such layers
/// is checked by its loader.
Result<void> check(const messages::StageLayers& layers) {
  const auto format = [](WeightFormat f) { return f <= WeightFormat::mxint8 && gpu::is_mx(f); };
  if (layers.max_positions < 1 || layers.first < 0 || layers.count < 1 || int(layers.dtype) < 0 ||
      layers.dtype > NumberFormat::bf16 ||
      (layers.blocks &&
       (!format(layers.blocks->format) || layers.blocks->scales > ScaleChoice::search)))
    return fail(ErrorCode::invalid_argument, "the engine asks for a stage that cannot be");
  return {};
}

} // namespace

std::string NodeParts::device_of(const Wanted& wanted) const {
  return wanted.device.empty() ? devices.front().name : wanted.device;
}

NodeParts::OfferRef NodeParts::find_loaded(const Wanted& wanted) {
  const std::string device = device_of(wanted);
  const auto fits = [&](const OfferRef& offer) {
    return offer && offer->identity == wanted.identity && offer->info.device == device &&
           offer->layers == wanted.layers;
  };
  if (const auto found = std::ranges::find_if(offers, fits); found != offers.end())
    return *found;
  const std::lock_guard lock(mutex_);
  for (const auto& each : kept_)
    if (OfferRef offer = each.lock(); fits(offer))
      return offer;
  return nullptr;
}

std::optional<std::string> NodeParts::location_of(const Wanted& wanted) const {
  if (wanted.layers)
    if (const auto found = std::ranges::find(targets, wanted.identity, &Files::identity);
        found != targets.end())
      return found->location;
  return cache ? cache->find(wanted.identity) : std::nullopt;
}

NodeParts::Found NodeParts::find(const Wanted& wanted) {
  const auto no = [](const Result<void>& why) { return Found{nullptr, false, why.error(), false}; };
  if (wanted.layers)
    if (const auto possible = check(*wanted.layers); !possible)
      return no(possible);
  const std::string device = device_of(wanted);
  std::vector<std::string> names;
  for (const NamedDevice& each : devices)
    names.push_back(each.name);
  if (std::ranges::find(names, device) == names.end())
    return no(fail(ErrorCode::not_found, "the node has no device " + device,
                   fmt::format("give one that it has: {}", fmt::join(names, ", "))));
  if (OfferRef offer = find_loaded(wanted))
    return {std::move(offer), false, {}, false};
  if (location_of(wanted))
    return {nullptr, true, {}, false};
  std::vector<std::string> models;
  for (const OfferRef& offer : offers)
    models.push_back(offer->info.name);
  const bool stage = wanted.layers.has_value();
  Found none = no(fail(
      ErrorCode::not_found,
      stage ? fmt::format("the node has no {} of which to load layers, or other files of it",
                          wanted.model)
            : fmt::format("the node has other models ({}) than {}, or other files of it",
                          fmt::join(models, ", "), wanted.model),
      fmt::format("start it with {} and a copy of the {}'s folder, or with --accept-models to be "
                  "sent it",
                  stage ? "--target" : "-m", stage ? "target" : "draft")));
  none.takes_files = cache != nullptr;
  return none;
}

Result<NodeParts::OfferRef> NodeParts::load(const std::string& name,
                                            const std::string& device) const {
  const actors::ModelLoader loader(loading, time, nullptr);
  auto model = loader.load(name, "draft", {device});
  if (!model)
    return tl::unexpected(model.error());
  auto identity = models::checkpoint_identity(model->source->location());
  if (!identity)
    return tl::unexpected(identity.error());
  ModelInfo info = model->info(name);
  info.device = device; // An engine asks for it by this name.
  return std::make_shared<const Offer>(
      Offer{std::move(*model), std::move(info), std::move(*identity)});
}

Result<NodeParts::OfferRef> NodeParts::load_layers(const std::string& location,
                                                   const Wanted& wanted) const {
  const messages::StageLayers& layers = *wanted.layers;
  const auto weights = models::sample_weights(location);
  if (!weights)
    return tl::unexpected(weights.error());
  if (*weights != layers.weights)
    return fail(ErrorCode::not_found,
                fmt::format("the node's {} has other weights under the same names", wanted.model),
                "give both machines copies of one folder");
  models::LoadOptions how;
  how.log = base::Log(loading.log);
  how.dtype = layers.dtype;
  how.blocks = layers.blocks;
  how.max_positions = layers.max_positions;
  how.activations = layers.int8_rows ? Activations::int8 : Activations::bf16;
  how.kv_cache_dtype = layers.int8_cache ? KvCacheDtype::int8 : KvCacheDtype::as_weights;
  how.only = models::LayerRange{layers.first, layers.count, true};
  const std::string device = device_of(wanted);
  const actors::ModelLoader loader(loading, time, nullptr);
  actors::LoadedModel part;
  return loader.open_device(device, 0)
      .and_then([&](auto&& opened) {
        part.device = std::move(opened);
        return models::open_checkpoint(location, "target");
      })
      .and_then([&](const auto& source) { return models::load_model(*source, {part.device}, how); })
      .map([&](models::Stages&& stages) -> OfferRef {
        part.model = std::move(stages.front());
        ModelInfo info = part.model->info();
        info.name = fmt::format("{}, layers {} to {}", wanted.model, layers.first + 1,
                                layers.first + layers.count);
        info.device = device;
        return std::make_shared<const Offer>(
            Offer{std::move(part), std::move(info), wanted.identity, layers});
      });
}

Result<NodeParts::LoadPlace> NodeParts::take_load_place(const Wanted& wanted) {
  const auto gone = [](const auto& each) { return each.expired(); };
  const std::lock_guard lock(mutex_);
  std::erase_if(loads_, gone);
  for (const auto& each : loads_)
    if (LoadPlace same = each.lock(); same && *same == wanted)
      return same;
  std::erase_if(kept_, gone);
  const auto full = [&] { return kept_.size() + loads_.size() >= limits::loads_max; };
  if (full() && newest_.use_count() == 1) { // It was kept for an engine that has not come.
    newest_ = nullptr;
    std::erase_if(kept_, gone);
  }
  if (full())
    return fail(ErrorCode::overloaded,
                fmt::format("the node has {} parts of models loaded because engines asked, which "
                            "is all it loads",
                            limits::loads_max),
                "end an engine that has some of them, or start another node");
  const auto place = std::make_shared<const Wanted>(wanted);
  loads_.emplace_back(place);
  return place;
}

Result<void> NodeParts::load_kept(const Wanted& wanted, LoadPlace place) {
  const std::lock_guard one_at_a_time(loading_);
  const auto location = location_of(wanted);
  if (!location || find_loaded(wanted))
    return {};
  auto offer = wanted.layers ? load_layers(*location, wanted) : load(*location, device_of(wanted));
  if (!offer) {
    if (offer.error().code == ErrorCode::corrupt && cache)
      cache->drop(wanted.identity); // The model may be sent again.
    return tl::unexpected(offer.error());
  }
  const std::lock_guard lock(mutex_);
  place = nullptr; // The loaded model now has the place.
  kept_.emplace_back(*offer);
  newest_ = std::move(*offer);
  return {};
}

messages::Surveyed NodeParts::survey() {
  messages::Surveyed all;
  for (const NamedDevice& each : devices) {
    const gpu::DeviceMemory memory = each.device->memory();
    all.devices.push_back({each.name, each.device->kernel(), memory.total, memory.available});
  }
  for (const OfferRef& offer : offers)
    all.models.push_back(offer->info);
  const std::lock_guard lock(mutex_);
  for (const auto& each : kept_)
    if (const OfferRef offer = each.lock())
      all.models.push_back(offer->info);
  all.engines = engines();
  all.engines_max = limits::sessions_max;
  all.kept_bytes = cache ? cache->kept_bytes() : 0;
  all.kept_max = cache ? cache->bytes_max() : 0;
  return all;
}

std::shared_ptr<const void> NodeParts::take_place() {
  const std::lock_guard lock(mutex_);
  return engines() < limits::sessions_max ? place_ : nullptr;
}

} // namespace paceline::nodes
