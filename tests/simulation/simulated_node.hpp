// A machine that drafts for a simulated engine, and the way there.
#pragma once

#include "actors/node/node_parts.hpp"
#include "actors/node/remote_draft.hpp"
#include "tests/simulation/simulated_engine.hpp"
#include "tests/simulation/simulated_wire.hpp"

#include <array>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace paceline::testing {

/// The real guest over a scripted draft on a faulty device, behind wires on which the plan's faults
/// happen. Threads: the virtual system's.
class SimulatedNode final : public Way, public std::enable_shared_from_this<SimulatedNode> {
public:
  /// ground: while its actors live. workload, counts: must outlive it; of what was seen to happen,
  /// by name.
  SimulatedNode(Ground& ground, const Workload& workload, std::uint64_t seed,
                std::map<std::string, int>& counts);

  /// What stands for the draft in the engine.
  actors::RemoteDraftParts parts(std::shared_ptr<gpu::Device> host);
  /// It dies, and what it knows with it.
  void end();
  /// While nothing goes wrong for longer than a guest is patient: adds what is wrong.
  void check_settled(std::vector<std::string>& failures);
  /// Behind its end: adds what somebody still has of it.
  void check_gone(std::vector<std::string>& failures) const;

  base::TimePoint now() const override { return time_->now(); }
  base::TimePoint arrival(LinkEnd from) override;
  void after(base::Duration delay, std::function<void()> then) override;
  std::optional<std::size_t> cut_within(std::size_t bytes) override;
  std::size_t comes_apart(std::size_t bytes) override;
  bool is_up(LinkEnd end) const override { return end == LinkEnd::engine || parts_; }

private:
  enum class Has { draft, another_model, nothing };
  void begin(Has what);
  void die(base::Duration pause, Has then);
  void misfortune();
  void part();
  void leave_half_open();
  std::shared_ptr<SimulatedWire> wire_to(const caf::actor& engine);
  void connect(const caf::actor_addr& engine);
  void answer(const caf::actor_addr& engine);
  std::shared_ptr<gpu::Device> device();
  double uniform() { return double(random_() >> 11) * 0x1p-53; }
  void reached(const char* what);
  void log(const std::string& line);

  Ground& ground_;
  const std::shared_ptr<base::Timekeeper> time_;
  const std::shared_ptr<FaultSource> faults_;
  const Workload& workload_;
  const std::uint64_t seed_;
  std::map<std::string, int>& counts_;
  std::mt19937_64 random_;
  base::Duration delay_{};                        ///< One way, at least.
  std::array<base::TimePoint, 2> parted_until_{}; ///< For what the engine sends; for the node's.
  base::TimePoint frozen_until_{};
  std::uint64_t life_ = 0;
  bool ended_ = false;
  std::shared_ptr<actors::NodeParts> parts_; ///< Null: it is down.
  std::vector<std::weak_ptr<actors::NodeParts>> lives_;
  std::vector<std::weak_ptr<SimulatedWire>> wires_;
  std::vector<std::string> failures_;
};

} // namespace paceline::testing
