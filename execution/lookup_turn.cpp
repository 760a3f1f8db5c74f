#include "execution/lookup_turn.hpp"

#include "speculation/limits.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::execution {

using speculation::Frontier;

namespace {

/// True if the model's tokens in a window that is waited for are unlikely to come true as a whole,
/// and those of a look-up that wrote others of the window would have ended it, too. Looks at who
/// wrote the tokens, not at what they are.
bool is_hopeless(const Frontier& at) {
  const speculation::Chain& chain = *at.chain;
  if (!at.drafters.model || chain.limit() > chain.window_end())
    return false;
  int written = 0;
  for (int i = at.length(); i < chain.drawn(); ++i)
    written += !chain.looked_up(i);
  return std::pow(std::max(at.drafters.chance, 0.0), written) <
         speculation::limits::lookup_chance_min;
}

} // namespace

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
  for (auto& [id, text] : sequences_.texts)
    if (text.at.chain->next() >= 0 && is_hopeless(text.at))
      text.at.chain->end_at(text.at.chain->drawn());
}

} // namespace paceline::execution
