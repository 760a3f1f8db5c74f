// The target lane's forward pass over one batch.
#pragma once

#include "base/telemetry.hpp"
#include "execution/forward_pass.hpp"
#include "gpu/lane.hpp"

#include <memory>
#include <vector>

namespace paceline::execution {

/// Feeds each entry's committed tokens and its window. The window's tokens are read from the chain
/// when the lane gets here: those that were bound when the batch was made are waited for, within
/// the batch's timeout. A pre-enqueued batch loses the entries that do not go on from the one
/// before; if none is left, nothing is run.
class ForwardStep final : public gpu::Step {
public:
  ForwardStep(std::shared_ptr<const models::Model> model, std::shared_ptr<gpu::KvPool> pool,
              std::shared_ptr<ForwardPass> pass, std::shared_ptr<base::Telemetry> telemetry);

  std::string name() const override { return "forward"; }
  Next prepare(base::TimePoint now) override;
  gpu::Work work() const override;
  void run(gpu::Operations& operations) override;
  void complete(base::TimePoint now) override;
  void retire(const gpu::Retirement& how) override;

private:
  void leave_what_goes_on();
  bool windows_settled() const;
  void plan();

  std::shared_ptr<const models::Model> model_;
  std::shared_ptr<gpu::KvPool> pool_;
  std::shared_ptr<ForwardPass> pass_;
  std::shared_ptr<base::Telemetry> telemetry_;
  std::optional<base::TimePoint> deadline_;
  gpu::Work work_;
  bool ran_ = false;
};

} // namespace paceline::execution
