// The forward pass over one batch on a lane of the target's.
#pragma once

#include "base/telemetry.hpp"
#include "execution/forward_pass.hpp"
#include "execution/stage.hpp"
#include "gpu/lane.hpp"

#include <memory>
#include <vector>

namespace paceline::execution {

/// Feeds each entry's committed tokens and its window. The window's tokens are read from the chain
/// when the first stage's lane gets here: tokens that were bound when the batch was made are waited
/// for, within the batch's timeout. A pre-enqueued batch keeps the entries that came true
/// (PassOutcome), on the lane where it is when that is known; if none has, nothing is run. On one
/// device that is before it begins. In several stages it begins as soon as its tokens are there,
/// with rows for other outcomes besides (alternatives.hpp). Further stages run the rows of the
/// first, from the rows that the stage before has left; if that one failed, they run nothing. If
/// several passes have chunks of one prompt, these go through each stage in their order, or the one
/// that comes too early fails.
class ForwardStep final : public gpu::Step {
public:
  ForwardStep(Stage stage, std::shared_ptr<ForwardPass> pass,
              std::shared_ptr<base::Telemetry> telemetry);

  std::string name() const override { return "forward"; }
  Next prepare(base::TimePoint now) override;
  /// Pages to copy before the pass; known after `prepare`.
  const std::vector<gpu::PageCopy>& copies() const { return copies_; }
  gpu::Work work() const override;
  bool in_shards() const override { return true; }
  void run(gpu::Operations& operations) override;
  void complete(base::TimePoint now) override;
  void retire(const gpu::Retirement& how) override;

private:
  bool is_first() const { return stage_.number == 0; }
  bool is_last() const { return stage_.number == pass_->handovers.size(); }
  Next prepare_rows(base::TimePoint now);
  bool follows_in_turn() const;
  Next follow_ahead();
  void leave_nothing();
  void leave_what_came_true();
  bool windows_drawn() const;
  bool windows_settled() const;
  bool read_rows();
  bool read_branches();
  void plan();
  void connect();
  int wanted_rows() const;

  Stage stage_;
  std::shared_ptr<ForwardPass> pass_;
  std::shared_ptr<base::Telemetry> telemetry_;
  std::optional<base::TimePoint> deadline_;
  gpu::Work work_;
  std::vector<gpu::PageCopy> copies_; ///< Copies made before the pass.
  bool ran_ = false;
  bool at_work_ = false;
  // The rows between stages: those that this stage reads, and those that it leaves.
  speculation::QRow received_;
  speculation::QRow left_;
};

} // namespace paceline::execution
