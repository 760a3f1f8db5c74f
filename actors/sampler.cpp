#include "actors/sampler.hpp"

#include "actors/verify_step.hpp"

#include <stdexcept>

namespace paceline::actors {

using namespace messages;

namespace {

/// The draft answers within microseconds, or is gone.
constexpr std::chrono::seconds loan_patience{5};

} // namespace

Sampler::Sampler(Handle::pointer self, SamplerParts parts)
    : self_(self), parts_(std::move(parts)) {}

void Sampler::verify(const Logits& logits) {
  const Batch& batch = logits.pass->batch;
  if (batch.id <= last_batch_)
    return; // repeated
  if (batch.after && batch.after != last_batch_)
    return; // armed, and out of turn: it would not stand behind what it waits for
  if (batch.wiring > wiring_.version) {
    early_ = logits;
    return;
  }
  last_batch_ = batch.id;
  const int every = parts_.check_draws_every;
  const bool check = every > 0 && batch.id % std::uint64_t(every) == 0;
  const auto me = caf::actor_cast<SamplerActor>(self_);
  auto step = std::make_shared<VerifyStep>(logits.pass, parts_.vocabulary, check, parts_.telemetry,
                                           [me, inbox = inbox_](Judged judged) {
                                             if (inbox && !judged.frontiers.sequences.empty())
                                               inbox->post(judged.frontiers);
                                             tell(me, std::move(judged.verdicts));
                                           });
  const auto before = logits.pass->before; // the lane may let go of it from now on
  if ((logits.step && !logits.lane->submit(logits.step)) || !logits.lane->submit(std::move(step)))
    throw std::runtime_error("the target's lane takes no more work");
  if (before) // last: what goes on is all there
    before->followed.store(true, std::memory_order_release);
}

void Sampler::rewire(const Wiring& wiring) {
  if (wiring.version <= wiring_.version)
    return;
  const bool same_draft = wiring.draft == wiring_.draft;
  wiring_ = wiring;
  if (const auto logits = std::exchange(early_, std::nullopt))
    verify(*logits);
  if (same_draft)
    return;
  inbox_ = nullptr;
  if (wiring.draft)
    ask(self_, wiring.draft, loan_patience, Borrow{})
        .then([this](const Lent& lent) { inbox_ = lent.inbox; }, [](const caf::error&) {});
}

SamplerActor::behavior_type Sampler::make_behavior() {
  return {
      [this](const Logits& logits) {
        const Handling span(*parts_.telemetry, name, "logits");
        verify(logits);
      },
      [this](const Verdicts& verdicts) {
        const Handling span(*parts_.telemetry, name, "verdicts");
        tell(self_, wiring_.scheduler, verdicts);
      },
      [this](const Wiring& wiring) { rewire(wiring); },
      [](const Ping&) { return Pong{}; },
  };
}

} // namespace paceline::actors
