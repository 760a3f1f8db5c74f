// An engine without its public face: the same parts and actors on a virtual clock whose seed
// decides what happens next, so that a test may look at each of them, or kill it.
#pragma once

#include "actors/opening.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/recorder.hpp"
#include "tests/support/requests.hpp"
#include "tests/support/simulation.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace paceline::actors {
class ActorTimekeeper;
}

namespace paceline::testing {

class EngineWorld {
public:
  explicit EngineWorld(const EngineOptions& options, std::uint64_t seed = 0,
                       actors::VirtualTimeOptions order = any_order);
  ~EngineWorld();
  EngineWorld(const EngineWorld&) = delete;
  EngineWorld& operator=(const EngineWorld&) = delete;

  /// Ends all actors.
  void close();

  std::shared_ptr<Recorder> submit(const Request& request);
  void cancel(std::uint64_t id);

  /// Where no timer is due sooner: so that what is held up until then does not wait for the next.
  void stop_clock_after(base::Duration delay);

  bool step() { return time_.step(); }
  /// Runs until silence, and returns how many steps that took.
  std::size_t run() { return time_.run(steps_max); }
  /// False: silence came first.
  bool run_until(const std::function<bool()>& reached) {
    return time_.run_until(reached, steps_max);
  }
  bool run_until_ended(const std::vector<std::shared_ptr<Recorder>>& requests);
  base::TimePoint now() const { return time_.now(); }
  /// What becomes of each message (actors/system/virtual_time.hpp).
  void decide_fates(std::function<actors::Fate(const actors::Arrival&)> decide) {
    time_.decide_fates(std::move(decide));
  }

  /// The handles of the actors that are there now.
  messages::ActorHandles handles();
  template <class Handle>
  void kill(const Handle& actor) {
    time_.kill(actor);
  }

  const actors::EngineParts& parts() const { return opened_.parts; }
  actors::EngineContext& opened() { return opened_; }
  Metrics metrics();

private:
  static constexpr std::size_t steps_max = 2'000'000;

  Simulation time_;
  std::shared_ptr<actors::ActorTimekeeper> clock_;
  actors::EngineContext opened_;
  messages::SupervisorActor supervisor_;
  messages::FacadeActor facade_; ///< There is only one, also once it is dead.
  std::uint64_t requests_ = 0;
};

/// A draft out of a target that lies in parts has weights of its own, and changes no token.
void check_draft_of_parts(EngineOptions options);
/// Kills an actor while code_requests() are answered, and checks that all end with these tokens,
/// and that no page is lost. seed: decides when, and what happens next.
void check_goes_on(const EngineOptions& options, std::uint64_t seed,
                   const std::vector<std::vector<TokenId>>& expected,
                   const std::function<void(EngineWorld&)>& kill);

} // namespace paceline::testing
