#include "execution/drafter_step.hpp"

#include <algorithm>

namespace paceline::execution {

using speculation::Chain;
using speculation::Frontier;

DrafterStep::DrafterStep(Parts parts, std::shared_ptr<DraftQueue> queue)
    : parts_(std::move(parts)), queue_(std::move(queue)) {
  rows_.vocabulary = parts_.vocabulary;
  rows_.q = std::make_shared<SparseRows>(std::make_shared<RowPool>(
      RowPool::Config{parts_.device, parts_.reader, parts_.vocabulary, parts_.q_rows}));
  parts_.host->begin_anew();
}

gpu::Step::Next DrafterStep::prepare(base::TimePoint now) {
  do {
    const bool changed = sequences_.take(queue_->take().frontiers);
    choose();
    begin_ = now;
    if (changed || !tasks_.empty())
      return Next::ready;
  } while (!queue_->leave_lane());
  return Next::done;
}

/// Chooses the tasks: windows go before lookahead.
void DrafterStep::choose() {
  tasks_.clear();
  const auto lacks = [](const Chain& chain) { return chain.next() < chain.window_end(); };
  bool hurries = false;
  for (const auto& [id, text] : sequences_.texts)
    hurries |= text.at.chain->next() >= 0 && lacks(*text.at.chain);
  for (auto& [id, text] : sequences_.texts)
    if (text.at.chain->next() >= 0 && (!hurries || lacks(*text.at.chain)))
      tasks_.emplace_back(text, rows_);
}

gpu::Work DrafterStep::work() const {
  int rows = 0;
  int context = 0;
  for (const DrafterTask& task : tasks_) {
    rows += task.asked();
    context = std::max(context, int(task.context().size()));
  }
  return {gpu::Work::Kind::draft, rows, int(tasks_.size()), context};
}

void DrafterStep::run(gpu::Operations& operations) {
  if (operations.rank() != 0)
    return;
  sequences_.propose(*parts_.host, tasks_);
}

void DrafterStep::complete(base::TimePoint now) {
  int asked = 0;
  int proposed = 0;
  for (const DrafterTask& task : tasks_)
    asked += task.asked();
  if (asked > 0)
    pace_.observe((now - begin_) / asked);
  for (DrafterTask& task : tasks_) {
    proposed += task.proposed();
    task.chain().spent((now - begin_) / std::int64_t(tasks_.size()), pace_);
    task.complete();
  }
  for (const auto& [id, text] : sequences_.texts)
    text.at.residency->read.store(text.at.length(), std::memory_order_relaxed);
  base::add(parts_.telemetry->drafted, proposed);
  parts_.telemetry->overlap.drafted(begin_, now);
  tasks_.clear();
  if (parts_.host->is_disabled())
    queue_->fail();
}

// Nobody waits for what an abandoned step left undone.
void DrafterStep::retire(const gpu::Retirement& how) {
  if (how.completed)
    return;
  tasks_.clear();
  sequences_.abandon();
  queue_->fail();
}

} // namespace paceline::execution
