// Another machine of a simulated engine's, which drafts for it or has stages of its target, and the
// way there.
#pragma once

#include "nodes/remote_draft.hpp"
#include "nodes/remote_stage.hpp"
#include "nodes/sessions.hpp"
#include "tests/simulation/simulated_engine.hpp"
#include "tests/simulation/simulated_wire.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace paceline::testing {

/// The real sessions over scripted models on faulty devices, behind wires on which the plan's
/// faults happen. Threads: the virtual system's.
class SimulatedNode final : public Way, public std::enable_shared_from_this<SimulatedNode> {
public:
  /// ground: while its actors live. workload, counts: must outlive it; of what was seen to happen,
  /// by name. number: of Workload::machines.
  SimulatedNode(Ground& ground, const Workload& workload, std::size_t number, std::uint64_t seed,
                std::map<std::string, int>& counts);

  /// What stands for the draft in the engine.
  nodes::RemoteDraftParts draft(std::shared_ptr<gpu::Device> host);
  /// Who dials for a stage.
  struct StageDialler {
    std::function<void()> answered; ///< Told when the machine is there with the stage's layers.
    std::function<bool()> waits;    ///< Whether the engine takes the stage for gone.
  };
  /// What stands for a stage of the target, if it is to be here.
  nodes::RemoteStageParts::Place place(int stage, StageDialler dialler);
  /// It dies, and what it knows with it.
  void end();
  /// While nothing goes wrong for longer than a session is patient: adds what is wrong.
  void check_settled(std::vector<std::string>& failures);
  /// Is called behind its end, and adds what somebody still has of it.
  void check_gone(std::vector<std::string>& failures) const;
  /// Returns how many it serves now.
  int engines() const { return parts_ ? parts_->survey().engines : 0; }

  base::TimePoint now() const override { return time_->now(); }
  base::TimePoint arrival(LinkEnd from) override;
  void after(base::Duration delay, std::function<void()> then) override;
  std::optional<std::size_t> cut_within(std::size_t bytes) override;
  std::size_t comes_apart(std::size_t bytes) override;
  bool is_up(LinkEnd end) const override { return end == LinkEnd::engine || parts_; }

private:
  enum class Has { all, another_model, other_weights, nothing };
  using OfferRef = nodes::NodeParts::OfferRef;
  void begin(Has what);
  OfferRef offer_draft() const;
  OfferRef offer_stage(int stage) const;
  void stop();
  void die(base::Duration pause, Has then);
  void misfortune();
  void part();
  void leave_half_open();
  std::shared_ptr<SimulatedWire> wire_to(const caf::actor& engine,
                                         const std::function<bool()>& let_go);
  void await_letting_go(const std::function<bool()>& has, int looks);
  void connect(const caf::actor_addr& engine, const StageDialler& dialler);
  void answer(const caf::actor_addr& engine, const StageDialler& dialler);
  messages::StageLayers layers_of(int stage) const;
  std::shared_ptr<gpu::Device> device(base::Duration step, bool stands_still = false,
                                      std::uint64_t salt = 0) const;
  double uniform() { return double(random_() >> 11) * 0x1p-53; }
  void reached(const char* what);
  void log(const std::string& line);

  Ground& ground_;
  const std::shared_ptr<base::Timekeeper> time_;
  const std::shared_ptr<FaultSource> faults_;
  const Workload& workload_;
  const Machine& machine_;
  const std::string name_;
  const std::uint64_t seed_;
  std::map<std::string, int>& counts_;
  std::mt19937_64 random_;
  base::Duration delay_{};                        ///< One way, at least.
  std::array<base::TimePoint, 2> parted_until_{}; ///< For what the engine sends; for the node's.
  base::TimePoint frozen_until_{};
  std::uint64_t life_ = 0;
  Has has_ = Has::all;
  bool ended_ = false;
  std::shared_ptr<nodes::NodeParts> parts_; ///< Null: it is down.
  std::unique_ptr<nodes::NodeSessions> sessions_;
  std::vector<std::weak_ptr<nodes::NodeParts>> lives_;
  std::vector<std::weak_ptr<SimulatedWire>> wires_;
  std::vector<std::string> failures_;
};

} // namespace paceline::testing
