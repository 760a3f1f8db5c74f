// A step that drafts with a Drafter (a look-up, or the caller's own) in the draft model's place.
#pragma once

#include "base/telemetry.hpp"
#include "execution/draft_queue.hpp"
#include "execution/drafter_host.hpp"
#include "execution/drafter_task.hpp"
#include "gpu/lane.hpp"

#include <memory>
#include <vector>

namespace paceline::execution {

/// Asks the Drafter for the rest of all windows at once, and for lookahead when no window lacks
/// anything. All positions asked for are bound before the call, so that neither its time nor its
/// result can decide what is judged; if it gives fewer tokens, the chain ends.
class DrafterStep final : public gpu::Step {
public:
  struct Parts {
    std::shared_ptr<DrafterHost> host;
    std::shared_ptr<gpu::Device> device; ///< A device on the host (Device::on_host).
    int vocabulary = 0;
    std::shared_ptr<base::Telemetry> telemetry;
    std::size_t q_rows; ///< Most q rows lent at a time; 0: nothing is drafted where q is needed.
    std::shared_ptr<gpu::Device> reader{}; ///< Verifies, so reads q rows; null: `device`.
  };
  DrafterStep(Parts parts, std::shared_ptr<DraftQueue> queue);

  std::string name() const override { return "propose"; }
  Next prepare(base::TimePoint now) override;
  gpu::Work work() const override;
  void run(gpu::Operations& operations) override;
  void complete(base::TimePoint now) override;
  void retire(const gpu::Retirement& how) override;

private:
  void choose();

  Parts parts_;
  std::shared_ptr<DraftQueue> queue_;
  DrafterTask::Rows rows_;
  DraftedTexts sequences_;
  std::vector<DrafterTask> tasks_; ///< Tasks of the current call.
  base::TimePoint begin_;
  speculation::DraftPace pace_;
};

} // namespace paceline::execution
