// The draft model actor, which knows sequences, positions, tokens and pages, but nothing of
// requests.
#pragma once

#include "base/telemetry.hpp"
#include "execution/draft_queue.hpp"
#include "execution/lane_closer.hpp"
#include "gpu/device.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <memory>

namespace paceline::actors {

class DraftProxy;

struct DraftModelParts {
  std::shared_ptr<gpu::Device> device; ///< Device whose lane drafts.
  /// Makes the step that drafts: a DraftStep (a model) or a DrafterStep (a Drafter), which takes
  /// its work from this queue. Its q rows go to `reader`, the target's device.
  std::function<std::shared_ptr<gpu::Step>(std::shared_ptr<execution::DraftQueue>,
                                           std::shared_ptr<gpu::Device> reader)>
      make_step;
  std::shared_ptr<execution::LaneCloser> closer;
  std::shared_ptr<base::Telemetry> telemetry;
  /// Returns whether the draft is not to be started again when it is down; empty: it always is.
  std::function<bool()> is_disabled{};
  /// The draft on another machine; if it is set, only `telemetry` is used of the other parts.
  std::shared_ptr<const DraftProxy> remote{};
};

/// Owns the draft lane. Frontiers go to the lane through a queue; windows come back from the lane
/// itself to those who wait for them (speculation/chain.hpp), so no message passes through this
/// actor per token or per window.
class DraftModel {
public:
  using Handle = messages::DraftActor;
  static constexpr const char* name = "draft";

  /// Throws std::runtime_error if the device gives no lane or no memory (the supervisor sees an
  /// actor that did not start).
  DraftModel(Handle::pointer self, DraftModelParts parts, std::shared_ptr<gpu::Device> target);
  ~DraftModel();
  Handle::behavior_type make_behavior();

private:
  class Inbox;

  DraftModelParts parts_;
  std::shared_ptr<Inbox> inbox_;
};

} // namespace paceline::actors
