// A caller's Drafter in the draft model's place.
#pragma once

#include "base/telemetry.hpp"
#include "execution/draft_queue.hpp"
#include "execution/row_pool.hpp"
#include "gpu/lane.hpp"
#include "paceline/drafter.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::execution {

/// Asks the Drafter for the rest of one sequence's window at a time, those that somebody waits for
/// first. All positions asked for are bound before the call: how long the call takes, and what
/// comes back, can then not decide what is judged; where it gives fewer tokens the chain ends.
/// While a call of a predecessor's lane has not come back, nothing is proposed.
class DrafterStep final : public gpu::Step {
public:
  struct Parts {
    std::shared_ptr<Drafter> drafter;
    std::shared_ptr<gpu::Device> device; ///< On the host (Device::on_host).
    int vocabulary = 0;
    std::shared_ptr<base::Telemetry> telemetry;
    /// Held during a call, by all lanes there ever are: one that was abandoned may still be in it.
    std::shared_ptr<std::mutex> calling = std::make_shared<std::mutex>();
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
  void absorb(DraftQueue::News news);
  speculation::Frontier* choose();
  std::vector<TokenId> context_of(const speculation::Frontier& at) const;
  speculation::QRow q_row(const Proposal& proposal, std::size_t index) const;

  Parts parts_;
  std::shared_ptr<DraftQueue> queue_;
  std::shared_ptr<RowPool> rows_;
  std::map<speculation::SequenceId, speculation::Frontier> sequences_;
  speculation::Frontier* current_ = nullptr;
  int asked_ = 0;
  Proposal proposal_;
  base::TimePoint begin_;
  speculation::DraftPace pace_;
};

} // namespace paceline::execution
