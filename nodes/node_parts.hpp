// The models and devices that a node offers to engines.
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

/// The parts that all sessions share. Threads: any, once they are filled in.
class NodeParts {
public:
  struct Offer {
    actors::LoadedModel model;
    ModelInfo info;
    std::string identity;                             ///< models::checkpoint_identity
    std::optional<messages::StageLayers> layers = {}; ///< None: all layers, as a draft.
  };
  using OfferRef = std::shared_ptr<const Offer>;
  struct NamedDevice {
    std::string name; ///< Name by which engines ask for it.
    std::shared_ptr<gpu::Device> device;
  };
  /// A model's files on this machine.
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
  std::vector<NamedDevice> devices;  ///< The first is meant if an engine names none.
  std::shared_ptr<ModelCache> cache; ///< Cache of engines' files; null: the node takes none.
  std::shared_ptr<gpu::Device> host; ///< The device on which rows of q are read.
  std::shared_ptr<execution::LaneCloser> closer;
  std::shared_ptr<base::Telemetry> telemetry;
  std::shared_ptr<base::Timekeeper> time;
  base::Duration clock_ahead{};    ///< NodeOptions::clock_ahead
  EngineOptions loading;           ///< Formats; it has no progress, which is one thread's.
  std::size_t kv_memory_bytes = 0; ///< KV memory of each engine.
  int page_tokens = 16;
  int piece_rows = limits::stage_piece_rows_max; ///< Most rows of a pass through a stage at a time.

  /// The answer to an engine that asks for a model.
  struct Found {
    OfferRef offer;
    bool kept = false;        ///< Whether its files are here: call load_kept, then ask again.
    Error why;                ///< Set if it is neither loaded nor kept.
    bool takes_files = false; ///< Whether it would be there if its files were sent.
  };
  Found find(const Wanted& wanted);
  /// Loads a model on the device unless it is there. name: the model's, as messages call it.
  Result<OfferRef> load(const std::string& name, const std::string& device) const;
  /// One of limits::loads_max places, for load_kept of these weights; those who want the same share
  /// it. Errors: overloaded.
  using LoadPlace = std::shared_ptr<const Wanted>;
  Result<LoadPlace> take_load_place(const Wanted& wanted);
  /// Loads a model from the cache, or layers of a target, which may take long.
  Result<void> load_kept(const Wanted& wanted, LoadPlace place);
  messages::Surveyed survey();

  /// Takes the place of one more engine, as long as it is held. Null: there are too many.
  std::shared_ptr<const void> take_place();

private:
  std::string device_of(const Wanted& wanted) const;
  OfferRef find_loaded(const Wanted& wanted);
  std::optional<std::string> location_of(const Wanted& wanted) const;
  Result<OfferRef> load_layers(const std::string& location, const Wanted& wanted) const;
  /// Counts the places that are held, because CAF keeps a dead actor until its last timer would
  /// ring.
  int engines() const { return int(place_.use_count()) - 1; }

  std::mutex loading_; ///< Held while a model is loaded, one at a time.
  std::mutex mutex_;
  std::shared_ptr<const char> place_ = std::make_shared<const char>();
  /// Offers from load_kept, as long as a session has them; `newest_` stays longer, for an engine
  /// that only asked.
  std::vector<std::weak_ptr<const Offer>> kept_;
  std::vector<std::weak_ptr<const Wanted>> loads_; ///< Loads under way.
  OfferRef newest_;
};

} // namespace paceline::nodes
