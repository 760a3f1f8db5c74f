// What a node offers to the engines that use it.
#pragma once

#include "actors/model_loader.hpp"
#include "base/telemetry.hpp"
#include "execution/lane_closer.hpp"
#include "messages/interfaces.hpp"
#include "nodes/limits.hpp"
#include "nodes/model_cache.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace paceline::nodes {

/// All sessions share it. Threads: any, once it is filled in.
class NodeParts {
public:
  struct Offer {
    actors::LoadedModel model;
    ModelInfo info;
    std::string identity;                             ///< models::checkpoint_identity
    std::optional<messages::StageLayers> layers = {}; ///< None: all of it, as a draft.
  };
  using OfferRef = std::shared_ptr<const Offer>;
  struct NamedDevice {
    std::string name; ///< Name by which engines ask for it.
    std::shared_ptr<gpu::Device> device;
  };
  /// Files of this machine's.
  struct Files {
    std::string identity;
    std::string location;
  };
  /// The weights that an engine asks for.
  struct Wanted {
    std::string device; ///< This and the next two are as in messages::OpenDraft.
    std::string model;
    std::string identity;
    std::optional<messages::StageLayers> layers = {}; ///< The same as in Offer.
    bool operator==(const Wanted&) const = default;
  };
  std::vector<OfferRef> offers;      ///< Drafts, loaded from the start.
  std::vector<Files> targets;        ///< Targets whose stages are loaded when an engine asks.
  std::vector<NamedDevice> devices;  ///< The first is meant where an engine names none.
  std::shared_ptr<ModelCache> cache; ///< Cache of files that engines send; null: it takes none.
  std::shared_ptr<gpu::Device> host; ///< The device on which rows of q are read.
  std::shared_ptr<execution::LaneCloser> closer;
  std::shared_ptr<base::Telemetry> telemetry;
  std::shared_ptr<base::Timekeeper> time;
  base::Duration clock_ahead{};    ///< NodeOptions::clock_ahead
  EngineOptions loading;           ///< Formats; without a progress, which is one thread's.
  std::size_t kv_memory_bytes = 0; ///< KV memory of each engine.
  int page_tokens = 16;
  int piece_rows = limits::stage_piece_rows_max; ///< Of a pass through a stage, at a time at most.

  /// What there is for an engine.
  struct Found {
    OfferRef offer;
    bool kept = false;        ///< Its files are here: load_kept, then ask again.
    Error why;                ///< Neither.
    bool takes_files = false; ///< It would be there if they were sent.
  };
  Found find(const Wanted& wanted);
  /// name: as messages call it. Loads it on the device unless it is there.
  Result<OfferRef> load(const std::string& name, const std::string& device) const;
  /// One of limits::loads_max, for load_kept of these weights; whoever wants the same has it, too.
  /// Errors: overloaded.
  using LoadPlace = std::shared_ptr<const Wanted>;
  Result<LoadPlace> take_load_place(const Wanted& wanted);
  /// Loads a model from the cache, or layers of a target, which takes the time of loading.
  Result<void> load_kept(const Wanted& wanted, LoadPlace place);
  messages::Surveyed survey();

  /// Takes the place of one more engine, for as long as it is held. Null: there are too many.
  std::shared_ptr<const void> take_place();

private:
  std::string device_of(const Wanted& wanted) const;
  OfferRef find_loaded(const Wanted& wanted);
  std::optional<std::string> location_of(const Wanted& wanted) const;
  Result<OfferRef> load_layers(const std::string& location, const Wanted& wanted) const;
  /// Counts the places that are held, for CAF keeps a dead actor until its last timer would ring.
  int engines() const { return int(place_.use_count()) - 1; }

  std::mutex loading_; ///< One model at a time.
  std::mutex mutex_;
  std::shared_ptr<const char> place_ = std::make_shared<const char>();
  /// From load_kept, as long as a session has it; the newest longer, for an engine that only asked.
  std::vector<std::weak_ptr<const Offer>> kept_;
  std::vector<std::weak_ptr<const Wanted>> loads_; ///< Loads under way.
  OfferRef newest_;
};

} // namespace paceline::nodes
