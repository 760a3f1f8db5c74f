#include "execution/drafter_step.hpp"

#include <algorithm>

namespace paceline::execution {

using speculation::Chain;
using speculation::Frontier;

DrafterStep::DrafterStep(Parts parts, std::shared_ptr<DraftQueue> queue)
    : queue_(std::move(queue)), drafter_(std::move(parts)) {}

gpu::Step::Next DrafterStep::prepare(base::TimePoint now) {
  do {
    const bool changed =
        sequences_.take(queue_->take().frontiers, [](Sequence& s, Frontier&& frontier) {
          s.at = std::move(frontier);
          s.at.chain->release_q(s.at.length());
        });
    choose();
    begin_ = now;
    if (changed || !drafter_.tasks().empty())
      return Next::ready;
  } while (!queue_->leave_lane());
  return Next::done;
}

/// Chooses the tasks: windows go before lookahead.
void DrafterStep::choose() {
  const auto lacks = [](const Chain& chain) { return chain.next() < chain.window_end(); };
  bool hurries = false;
  for (const auto& [id, s] : sequences_)
    hurries |= s.at.chain->next() >= 0 && lacks(*s.at.chain);
  for (auto& [id, s] : sequences_)
    if (s.at.chain->next() >= 0 && (!hurries || lacks(*s.at.chain)))
      drafter_.ask(s.at, s.text, s.form);
}

gpu::Work DrafterStep::work() const {
  int rows = 0;
  int context = 0;
  for (const DrafterTask& task : drafter_.tasks()) {
    rows += task.asked();
    context = std::max(context, int(task.context().size()));
  }
  return {gpu::Work::Kind::draft, rows, int(drafter_.tasks().size()), context};
}

void DrafterStep::run(gpu::Operations& operations) {
  if (operations.rank() != 0)
    return;
  std::vector<const Frontier*> alive;
  for (const auto& [id, s] : sequences_)
    alive.push_back(&s.at);
  drafter_.propose(alive);
}

void DrafterStep::complete(base::TimePoint now) {
  const std::vector<DrafterTask>& tasks = drafter_.tasks();
  int asked = 0;
  for (const DrafterTask& task : tasks)
    asked += task.asked();
  if (asked > 0)
    pace_.observe((now - begin_) / asked);
  for (const DrafterTask& task : tasks)
    task.chain().spent((now - begin_) / std::int64_t(tasks.size()), pace_);
  drafter_.complete();
  for (const auto& [id, s] : sequences_)
    s.at.residency->read.store(s.at.length(), std::memory_order_relaxed);
  drafter_.telemetry().overlap.drafted(begin_, now);
  if (drafter_.is_disabled())
    queue_->fail();
}

// Nobody waits for what an abandoned step left undone.
void DrafterStep::retire(const gpu::Retirement& how) {
  if (how.completed)
    return;
  drafter_.abandon();
  for (auto& [id, s] : sequences_)
    s.at.chain->end_here();
  sequences_.clear();
  queue_->fail();
}

} // namespace paceline::execution
