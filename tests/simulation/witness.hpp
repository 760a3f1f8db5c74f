// Watches a run for rare paths, which a campaign must have reached to mean anything, and for
// requests that are passed over.
#pragma once

#include "actors/system/virtual_time.hpp"
#include "base/telemetry.hpp"
#include "messages/interfaces.hpp"
#include "tests/simulation/admissions.hpp"
#include "tests/simulation/faulty_device.hpp"
#include "tests/simulation/report.hpp"
#include "tests/simulation/simulated_engine.hpp"
#include "tests/simulation/turns.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>

namespace paceline::testing {

/// All that `Report::probes` may name.
std::span<const char* const> probe_names();

class Witness {
public:
  Witness(Report& report, std::shared_ptr<const base::Telemetry> telemetry, SchedulingPolicy policy)
      : report_(report), telemetry_(std::move(telemetry)), turns_(policy) {}

  /// Every step takes `step` as long as nothing was disturbed, and the policy is by deadlines.
  /// ground: must outlive this.
  void watch_admissions(base::Duration step, const Ground& ground);
  /// What is judged has to be what the workload's draft draws there. workload: must outlive this.
  void watch_drafts(const Workload& workload) { drafts_of_ = &workload; }
  /// A message is about to be handled.
  void sees(const actors::Arrival& arrival);
  /// Its receiver dies of it, before or after.
  void dies_of(const actors::Arrival& arrival);
  /// An actor of that name is killed.
  void dies(std::string_view name);
  void sees(LaneNews news);
  void ends(speculation::SequenceId request, const Finished& end, int output);
  /// The run is over.
  void settles();

private:
  enum Probe : std::size_t;
  void reached(Probe probe);
  void sees(const scheduling::Batch& batch);
  void sees(const scheduling::Verdicts& verdicts);
  void loses_pages(speculation::SequenceId sequence);

  Report& report_;
  std::shared_ptr<const base::Telemetry> telemetry_;
  Turns turns_;
  std::optional<Admissions> admissions_;
  const Ground* ground_ = nullptr; ///< For these.
  /// A batch, without its references.
  struct Step {
    std::uint64_t id = 0;
    std::uint64_t after = 0;
    std::set<speculation::SequenceId> in_flight;   ///< In it, until its verdicts come.
    std::set<speculation::SequenceId> speculating; ///< Of these, with a window.
  };
  void runs(Step step);
  void follow_fork(const speculation::Chain& judged, int length,
                   const scheduling::Verdict& verdict);
  void check_drafts(const scheduling::Verdicts& verdicts);

  /// What is judged of a sequence.
  struct Judged {
    speculation::SequenceSpecRef spec;
    speculation::TokenLogView log;
    int length = 0;
    std::weak_ptr<const speculation::Chain> chain;
  };
  const Workload* drafts_of_ = nullptr;
  /// What was judged, by batch and in the order of its entries.
  std::map<std::uint64_t, std::vector<Judged>> judged_;

  Step step_;                                 ///< The last.
  std::optional<Step> pre_enqueued_;          ///< Behind it.
  std::uint64_t passes_behind_ = 0;           ///< Of the draft, at the last verdict.
  std::set<speculation::SequenceId> holding_; ///< Pages.
  std::set<std::uint64_t> followed_;          ///< Batches that chunks of prompts were sent behind.
  std::set<speculation::SequenceId> recomputing_; ///< Lost their pages, and have no new token yet.
  std::uint64_t preemptions_ = 0;
  bool draft_died_ = false; ///< While the batch was under way.
  bool lied_ = false;       ///< The draft, and its end was asked for.
  int asleep_ = 0;          ///< Lanes that were abandoned and have not woken,
  bool wanted_ = false;     ///< and pages were asked for meanwhile.
};

} // namespace paceline::testing
