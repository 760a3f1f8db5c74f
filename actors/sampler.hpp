// The sampler actor, which enqueues verification behind each pass and spreads the verdicts.
#pragma once

#include "base/telemetry.hpp"
#include "messages/interfaces.hpp"
#include "scheduling/batch_order.hpp"

#include <memory>
#include <vector>

namespace paceline::actors {

struct SamplerParts {
  int vocabulary = 0; ///< Ids that are not padding.
  /// Interval, in batches, of the check that repeats the draft's draws; 1: every batch, 0: never.
  int check_draws_every = 64;
  std::shared_ptr<base::Telemetry> telemetry;
};

class Sampler {
public:
  using Handle = messages::SamplerActor;
  static constexpr const char* name = "sampler";

  Sampler(Handle::pointer self, SamplerParts parts);
  Handle::behavior_type make_behavior();

private:
  void verify(const messages::Logits& logits);
  void update(const messages::ActorHandles& handles);

  Handle::pointer self_;
  SamplerParts parts_;
  messages::ActorHandles handles_;
  scheduling::BatchOrder batches_;
  std::vector<messages::Logits> early_;            ///< Passes that wait for newer handles.
  std::shared_ptr<speculation::DraftInbox> inbox_; ///< Lent by the draft; null without one.
};

} // namespace paceline::actors
