#include "scheduling/drafting.hpp"

#include <limits>

namespace paceline::scheduling {

void Drafting::retire_chain(Sequence& s, const Chain* successor) {
  if (!s.chain)
    return;
  waits.stop(); // nobody will finish it
  s.chain->close();
  waits.remember(s.chain->pace().step);
  s.stats.drafted += std::uint64_t(s.chain->drawn() - s.chain->start());
  const std::uint64_t forked = s.chain->drop_forks(std::numeric_limits<int>::max(), successor);
  s.stats.drafted += forked;
  s.stats.forked += forked;
  s.chain = nullptr;
  s.window = 0;
  s.health.go_on();
}

void Drafting::retire_all_chains(base::TimePoint now) {
  for (auto& [id, s] : sequences_) {
    waits.release(s, now);
    retire_chain(s);
  }
}

bool Drafting::end_forks() {
  bool any = false;
  for (const auto& [id, s] : sequences_)
    any |= s.chain && s.chain->end_forks();
  return any;
}

void Drafting::disable(Turn& turn) {
  health.disable();
  turn.act(DisableDraft{}); // nobody uses it again
}

void Drafting::watch(Turn& turn) {
  bool owes = false;
  bool has_written = false;
  for (auto& [id, s] : sequences_) {
    const int read = s.residency ? s.residency->read.load(std::memory_order_relaxed) : 0;
    has_written |= s.health.has_grown(read + (s.chain ? s.chain->drawn() - s.chain->start() : 0));
    owes |= s.chain && (!s.window_settled() || s.held_up());
  }
  if (!health.stands_still(owes, has_written, waits.step(), turn.now))
    return;
  base::add(config_.telemetry->stalls, 1);
  turn.act(EndDraft{});
}

} // namespace paceline::scheduling
