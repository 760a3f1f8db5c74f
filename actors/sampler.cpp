#include "actors/sampler.hpp"

#include "execution/verify_step.hpp"

#include <stdexcept>

namespace paceline::actors {

using namespace messages;
using namespace scheduling;

namespace {

/// Time after which the draft counts as gone: it answers within microseconds.
constexpr std::chrono::seconds borrow_timeout{5};

} // namespace

Sampler::Sampler(Handle::pointer self, SamplerParts parts)
    : self_(self), parts_(std::move(parts)) {}

void Sampler::verify(const Logits& logits) {
  const Batch& batch = logits.pass->batch;
  if (!batches_.is_due(batch.id))
    return; // The batch is a repetition.
  if (batch.handles > handles_.version) {
    early_.push_back(logits);
    return;
  }
  batches_.note(batch.id);
  const int every = parts_.check_draws_every;
  const bool check = every > 0 && batch.id % std::uint64_t(every) == 0;
  const auto me = caf::actor_cast<SamplerActor>(self_);
  auto step = std::make_shared<execution::VerifyStep>(
      logits.pass, parts_.vocabulary, check, parts_.telemetry,
      [me, inbox = inbox_](execution::Judged judged) {
        const bool drafts = !judged.frontiers.sequences.empty();
        if (drafts && inbox)
          inbox->post(judged.frontiers);
        else if (drafts)
          tell(me, std::move(judged.frontiers));
        tell(me, std::move(judged.verdicts));
      });
  if (!logits.pass->handovers.empty())
    return logits.pass->handovers.back().expect(logits.lane, {logits.step, std::move(step)});
  if ((logits.step && !logits.lane->submit(logits.step)) || !logits.lane->submit(std::move(step)))
    throw std::runtime_error("the target's lane takes no more work");
}

void Sampler::update(const ActorHandles& handles) {
  if (handles.version <= handles_.version)
    return;
  const bool same_draft = handles.draft == handles_.draft;
  handles_ = handles;
  if (!same_draft)
    inbox_ = nullptr; // The early passes belong to the new draft already.
  for (const Logits& logits : std::exchange(early_, {}))
    verify(logits);
  if (!same_draft && handles.draft)
    ask(self_, handles.draft, borrow_timeout, Borrow{})
        .then([this](const Lent& lent) { inbox_ = lent.inbox; }, [](const caf::error&) {});
}

SamplerActor::behavior_type Sampler::make_behavior() {
  return {
      [this](const Logits& logits) {
        const base::Handling span(*parts_.telemetry, name, "logits");
        verify(logits);
      },
      [this](const Verdicts& verdicts) {
        const base::Handling span(*parts_.telemetry, name, "verdicts");
        tell(self_, handles_.scheduler, verdicts);
      },
      [this](const speculation::Frontiers& news) {
        if (handles_.draft)
          tell(self_, handles_.draft, news);
      },
      [this](const ActorHandles& handles) { update(handles); },
      [](const Ping&) { return Pong{}; },
  };
}

} // namespace paceline::actors
