// A look-up on a draft model's lane.
#pragma once

#include "base/telemetry.hpp"
#include "execution/drafter_task.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace paceline::execution {

/// The turn that a look-up has between two passes of the model: it writes what it knows better into
/// the chains (speculation::Drafters), and the model goes on behind that. A turn takes microseconds
/// of the lane's own thread, and nothing of its device. Threads: the lane's.
class LookupTurn {
public:
  struct Parts {
    std::shared_ptr<DrafterHost> host;   ///< Host of a look-up that answers at once.
    std::shared_ptr<gpu::Device> device; ///< A device on the host (Device::on_host).
    int vocabulary = 0;
    std::shared_ptr<base::Telemetry> telemetry;
    std::size_t q_rows =
        0; ///< Most q rows lent at a time; 0: nothing is drafted where q is needed.
    std::shared_ptr<gpu::Device> reader{}; ///< Verifies, so reads q rows; null: `device`.
  };
  explicit LookupTurn(Parts parts);

  /// Takes newer frontiers; those that want no look-up are left out.
  void take(const std::vector<speculation::Frontier>& news);
  /// Writes into all chains that have room.
  void propose();
  void abandon() { sequences_.abandon(); }

private:
  Parts parts_;
  DrafterTask::Rows rows_;
  DraftedTexts sequences_;
  bool changed_ = false; ///< Sequences have come or gone since the last turn.
};

} // namespace paceline::execution
