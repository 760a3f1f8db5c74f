// What a fault plan does to the messages of engines.
#pragma once

#include "tests/simulation/simulated_engine.hpp"
#include "tests/simulation/witness.hpp"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

/// Decides the fate of every message of a run's engines, from its construction on.
class MessageFaults {
public:
  /// ground: must outlive it. witness: told of messages and deaths; null: nobody is. log: told a
  /// line for each message.
  MessageFaults(Ground& ground, Witness* witness, std::function<void(const std::string&)> log);
  /// Told of messages, too.
  void watch(std::function<void(const actors::Arrival&)> sees) { sees_ = std::move(sees); }
  /// An engine that is not killed but as a whole, and that once. Its actors may be before.
  void add(const SimulatedEngine& engine) { engines_.push_back(&engine); }
  /// It ends.
  void remove(const SimulatedEngine& engine);
  /// Lets go of all actors.
  void end();

private:
  actors::Fate fate_of(const actors::Arrival& arrival);
  bool spared(const actors::Arrival& arrival) const;
  void kill_supervisor();
  void kill_anybody();

  Ground& ground_;
  Witness* witness_;
  std::function<void(const std::string&)> log_;
  std::function<void(const actors::Arrival&)> sees_; ///< May be empty.
  std::vector<const SimulatedEngine*> engines_;
  bool supervisor_killed_ = false;
  std::map<std::string, caf::strong_actor_ptr> actors_; ///< Last seen, by name.
};

} // namespace paceline::testing
