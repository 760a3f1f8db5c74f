// A Drafter in the draft model's place: a look-up, or the caller's own.
#pragma once

#include "base/telemetry.hpp"
#include "execution/draft_queue.hpp"
#include "execution/drafter_host.hpp"
#include "execution/drafter_task.hpp"
#include "gpu/lane.hpp"

#include <memory>
#include <vector>

namespace paceline::execution {

/// Asks the Drafter for the rest of all windows at a time, and for lookahead when no window lacks
/// anything. All positions asked for are bound before the call: how long the call takes, and what
/// comes of it, can then not decide what is judged; where it gives fewer tokens the chain ends.
class DrafterStep final : public gpu::Step {
public:
  struct Parts {
    std::shared_ptr<DrafterHost> host;
    std::shared_ptr<gpu::Device> device; ///< On the host (Device::on_host).
    int vocabulary = 0;
    std::shared_ptr<base::Telemetry> telemetry;
    std::size_t q_rows; ///< Lent at a time; 0: nothing is drafted where q is needed.
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
  std::vector<DrafterTask> tasks_; ///< Of the call at hand.
  base::TimePoint begin_;
  speculation::DraftPace pace_;
};

} // namespace paceline::execution
