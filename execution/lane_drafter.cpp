#include "execution/lane_drafter.hpp"

#include <utility>

namespace paceline::execution {

LaneDrafter::LaneDrafter(Parts parts) : parts_(std::move(parts)) {
  rows_.vocabulary = parts_.vocabulary;
  rows_.q = std::make_shared<SparseRows>(std::make_shared<RowPool>(
      RowPool::Config{parts_.device, parts_.reader, parts_.vocabulary, parts_.q_rows}));
  parts_.host->begin_anew();
}

void LaneDrafter::propose(DrafterHost::Sequences alive) {
  std::vector<DraftTask*> asked;
  for (DrafterTask& task : tasks_)
    asked.push_back(&task);
  parts_.host->call(alive, asked);
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
