// Applies a verdict to its sequence: tokens are committed, chains go on, statistics are kept.
#pragma once

#include "scheduling/config.hpp"
#include "scheduling/drafting.hpp"
#include "scheduling/residency.hpp"

namespace paceline::scheduling {

class Committer {
public:
  Committer(const SchedulerConfig& config, Drafting& drafting, Residency& residency,
            QueueOrder& order)
      : config_(config), drafting_(drafting), residency_(residency), order_(order) {}

  /// Takes the verdict of a sequence's step in flight; what is committed goes to `commits`. Returns
  /// whether the sequence has ended.
  bool apply(Turn& turn, Sequence& s, const BatchEntry& entry, const Verdict& verdict,
             Commits& commits);

private:
  bool commit(Sequence& s, const Verdict& verdict, Commits& commits);
  Committed news_of(Sequence& s, const Verdict& verdict, std::size_t keep);
  void follow_chain(Turn& turn, Sequence& s, const BatchEntry& entry, const Verdict& verdict);
  bool cut(const Sequence& s, const BatchEntry& entry) const;
  void count(Sequence& s, const Verdict& verdict);
  void count_drafters(Sequence& s, const Verdict& verdict);

  const SchedulerConfig& config_;
  Drafting& drafting_;
  Residency& residency_;
  QueueOrder& order_;
};

} // namespace paceline::scheduling
