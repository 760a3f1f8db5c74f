#include "execution/lookup_turn.hpp"

namespace paceline::execution {

using speculation::Frontier;

LookupTurn::LookupTurn(Parts parts) : parts_(std::move(parts)) {
  rows_.vocabulary = parts_.vocabulary;
  rows_.q = std::make_shared<SparseRows>(std::make_shared<RowPool>(
      RowPool::Config{parts_.device, parts_.reader, parts_.vocabulary, parts_.q_rows}));
  parts_.host->begin_anew();
}

void LookupTurn::take(const std::vector<Frontier>& news) {
  std::vector<Frontier> wanted;
  for (const Frontier& frontier : news)
    if (frontier.drafters.lookup)
      wanted.push_back(frontier);
  changed_ |= sequences_.take(std::move(wanted));
}

void LookupTurn::propose() {
  std::vector<DrafterTask> tasks;
  for (auto& [id, text] : sequences_.texts)
    if (text.at.chain->next() >= 0)
      tasks.emplace_back(text, rows_, DrafterTask::Beside::model);
  if (tasks.empty() && !changed_)
    return;
  changed_ = false;
  sequences_.propose(*parts_.host, tasks);
  for (DrafterTask& task : tasks) {
    task.complete();
    base::add(parts_.telemetry->drafted, task.proposed());
  }
}

} // namespace paceline::execution
