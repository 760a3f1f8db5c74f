#include "speculation/early_end.hpp"

#include "speculation/chain.hpp"

namespace paceline::speculation {

bool EarlyEnd::is_before(int position, const Chain& chain, int start) const {
  if (least <= 0)
    return false;
  double chance = odds.acceptance;
  for (int before = start; before < position; ++before) {
    if (before < chain.drawn() && chain.writer(before) == Writer::form)
      continue; // it is accepted nearly always
    const bool is_known = before < chain.drawn() && chain.guesses(before).count > 0;
    chance *= is_known ? odds.accepted(chain.guesses(before)) : odds.acceptance;
  }
  return position > start && chance < least;
}

} // namespace paceline::speculation
