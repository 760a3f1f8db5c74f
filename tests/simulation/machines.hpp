// The other machines of a run, and what of its engine is there.
#pragma once

#include "tests/simulation/report.hpp"
#include "tests/simulation/simulated_engine.hpp"
#include "tests/simulation/simulated_node.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace paceline::testing {

/// Watches what becomes of the stages there: rare paths, and requests that end too early, or too
/// late, where one is gone.
class Machines {
public:
  /// ground, workload, report: must outlive it. open_since: how many requests came before then, and
  /// have not ended.
  Machines(Ground& ground, const Workload& workload, std::uint64_t seed, Report& report,
           std::function<int(base::TimePoint)> open_since);

  bool any() const { return !nodes_.empty(); }
  bool has_draft() const { return draft_ != nullptr; }
  bool has_stages() const { return !stages_.empty(); }
  /// Connections that the engine needs.
  int links() const { return int(has_draft()) + int(stages_.size()); }
  std::string text() const; ///< For reading.
  /// Has the engine that is made with these look for its draft, and for stages, there.
  void connect(SimulatedEngine::Options& options);
  /// A message is about to be handled.
  void sees(const actors::Arrival& arrival);
  /// A request has ended.
  void sees(speculation::SequenceId request, const Finished& end);
  /// While nothing goes wrong for longer than a session is patient. lives: whether the engine does.
  void check_settled(bool lives);
  void end();
  /// Is called behind the end of their engine.
  void check_gone();

private:
  /// A stage of the target, elsewhere.
  struct Stage {
    int number = 0;
    std::vector<std::shared_ptr<SimulatedNode>> places; ///< Its own, then its reserve.
    std::shared_ptr<nodes::RemoteStageParts> parts;
    bool was_there = false;
    bool out_of_patience = false; ///< The engine was, once at least.
  };
  /// What an actor that stands for a stage was seen to get.
  struct Seen {
    std::uint64_t passes = 0;
    std::uint64_t pieces = 0;
  };
  std::shared_ptr<nodes::RemoteStageParts> parts_of(Stage& stage);
  bool is_gone(const Stage& stage) const {
    return stage.parts->memory->absence.since().has_value();
  }
  base::Duration gone_for(const Stage& stage) const;
  void answered(Stage& stage, std::size_t place);
  void note_long_absences();
  void reached(const char* what) { ++report_.probes[what]; }

  Ground& ground_;
  const Workload& workload_;
  Report& report_;
  std::function<int(base::TimePoint)> open_since_;
  std::vector<std::shared_ptr<SimulatedNode>> nodes_;
  std::shared_ptr<SimulatedNode> draft_; ///< Null: it is in the engine.
  std::map<int, Stage> stages_;          ///< By number.
  std::map<caf::actor_id, Seen> seen_;
};

} // namespace paceline::testing
