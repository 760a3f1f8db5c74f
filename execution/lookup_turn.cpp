#include "execution/lookup_turn.hpp"

#include "speculation/limits.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

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
    written += chain.writer(i) == speculation::Writer::drafter;
  return std::pow(std::max(at.drafters.chance, 0.0), written) <
         speculation::limits::lookup_chance_min;
}

} // namespace

void LookupTurn::propose(speculation::DraftedSequences<speculation::DraftSequence>& sequences,
                         bool changed) {
  for (auto& [id, s] : sequences)
    if ((s.at.drafters.lookup || s.at.drafters.form()) && s.at.chain->next() >= 0)
      drafter_.ask(s.at, s.text, s.form, DrafterTask::Beside::model);
  if (drafter_.tasks().empty() && !changed)
    return;
  std::vector<const Frontier*> alive;
  for (const auto& [id, s] : sequences)
    if (s.at.drafters.lookup)
      alive.push_back(&s.at);
  drafter_.propose(alive);
  drafter_.complete();
  for (const Frontier* at : alive)
    if (at->chain->next() >= 0 && is_hopeless(*at))
      at->chain->end_here();
}

} // namespace paceline::execution
