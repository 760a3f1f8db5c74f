// Watches a run's messages for rare paths that no single actor can see.
#pragma once

#include "messages/interfaces.hpp"
#include "messages/virtual_time.hpp"
#include "tests/simulation/run.hpp"

#include <algorithm>
#include <set>
#include <string_view>

namespace paceline::testing {

class Witness {
public:
  explicit Witness(Report& report) : report_(report) {}

  void sees(const messages::Arrival& arrival) {
    if (arrival.content.match_element<messages::Batch>(0))
      sees(arrival.content.get_as<messages::Batch>(0));
    else if (arrival.content.match_element<messages::Verdicts>(0) && is(arrival, "scheduler"))
      sees(arrival.content.get_as<messages::Verdicts>(0));
  }
  void dies(const messages::Arrival& arrival) {
    if (arrival.content.match_element<messages::Verdicts>(0))
      reached("kill between verdict and commit");
    if (is(arrival, "draft") && !speculating_.empty())
      draft_died_ = true;
  }

private:
  static bool is(const messages::Arrival& arrival, std::string_view name) {
    return arrival.name == name;
  }
  void reached(const char* probe) { ++report_.probes[probe]; }

  void sees(const messages::Batch& batch) {
    speculating_.clear();
    for (const messages::BatchEntry& entry : batch.entries)
      if (entry.window > 0)
        speculating_.insert(entry.spec->id);
    report_.windows_in_flight = std::max(report_.windows_in_flight, int(speculating_.size()));
  }
  void sees(const messages::Verdicts& verdicts) {
    if (draft_died_ && std::ranges::any_of(verdicts.sequences, &messages::Verdict::hit))
      reached("death of the draft with a hit in flight");
    draft_died_ = false;
    speculating_.clear();
  }

  Report& report_;
  std::set<messages::SequenceId> speculating_; ///< In the batch under way.
  bool draft_died_ = false;                    ///< While it was.
};

} // namespace paceline::testing
