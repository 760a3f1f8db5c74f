// The actor of a node that takes a model's files from an engine. It has a thread of its own,
// because disks block.
#pragma once

#include "messages/interfaces.hpp"
#include "nodes/model_cache.hpp"

#include <memory>

namespace paceline::nodes {

/// Receives one model, and tells the link the engine's answers; an invalid value ends it, and with
/// it the connection.
class Receiver {
public:
  using Handle = messages::ReceiverActor;
  static constexpr const char* name = "receiver";

  Receiver(Handle::pointer self, std::shared_ptr<ModelCache> cache, messages::SendModel what,
           messages::LinkActor link);
  Handle::behavior_type make_behavior();

private:
  void begin();
  void take(const messages::ModelPart& part);
  void refuse(const Error& why);

  Handle::pointer self_;
  std::shared_ptr<ModelCache> cache_;
  messages::SendModel what_;
  messages::LinkActor link_;
  std::unique_ptr<ArrivingModel> arrival_; ///< Null: no model is arriving.
};

} // namespace paceline::nodes
