#include "execution/lane_drafter.hpp"

#include <utility>

namespace paceline::execution {

LaneDrafter::LaneDrafter(Parts parts) : parts_(std::move(parts)) {
  rows_.vocabulary = parts_.vocabulary;
  rows_.q = std::make_shared<SparseRows>(std::make_shared<RowPool>(
      RowPool::Config{parts_.device, parts_.reader, parts_.vocabulary, parts_.q_rows}));
  if (parts_.host)
    parts_.host->begin_anew();
}

void LaneDrafter::propose(DrafterHost::Sequences alive) {
  std::vector<DraftTask*> asked;
  for (DrafterTask& task : tasks_)
    if (task.asks())
      asked.push_back(&task);
  if (parts_.host)
    parts_.host->call(alive, asked);
  for (DrafterTask& task : tasks_)
    task.go_on();
}

void LaneDrafter::complete() {
  int proposed = 0;
  for (DrafterTask& task : tasks_) {
    proposed += task.proposed();
    task.complete();
  }
  base::add(parts_.telemetry->drafted, proposed);
  tasks_.clear();
}

} // namespace paceline::execution
