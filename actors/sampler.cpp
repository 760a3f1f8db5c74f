#include "actors/sampler.hpp"

#include "actors/verify_step.hpp"

#include <stdexcept>

namespace paceline::actors {

using namespace messages;

Sampler::Sampler(Handle::pointer self, SamplerParts parts)
    : self_(self), parts_(std::move(parts)) {}

void Sampler::verify(const Logits& logits) {
  const int every = parts_.check_draws_every;
  const bool check = every > 0 && logits.pass->batch.id % std::uint64_t(every) == 0;
  const auto me = caf::actor_cast<SamplerActor>(self_);
  auto step = std::make_shared<VerifyStep>(logits.pass, parts_.vocabulary, check, parts_.telemetry,
                                           [me](Judged judged) { tell(me, std::move(judged)); });
  if (!logits.lane->submit(std::move(step)))
    throw std::runtime_error("the target's lane takes no more work");
}

// The scheduler first: the target waits for it. The draft's news is a hint that may be lost.
void Sampler::spread(const Judged& judged) {
  tell(self_, wiring_.scheduler, judged.verdicts);
  if (wiring_.draft && !judged.frontiers.sequences.empty())
    tell(self_, wiring_.draft, judged.frontiers);
}

SamplerActor::behavior_type Sampler::make_behavior() {
  return {
      [this](const Logits& logits) {
        const Handling span(*parts_.telemetry, name, "logits");
        verify(logits);
      },
      [this](const Judged& judged) {
        const Handling span(*parts_.telemetry, name, "judged");
        spread(judged);
      },
      [this](const Wiring& wiring) { wiring_ = wiring; },
      [](const Ping&) { return Pong{}; },
  };
}

} // namespace paceline::actors
