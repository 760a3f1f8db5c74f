// Engines of several models on groups of devices, behind the controller that routes requests: what
// the server's fleet does, on a virtual clock.
#pragma once

#include "placement/controller.hpp"
#include "placement/moves.hpp"
#include "tests/placement/dice.hpp"
#include "tests/simulation/answer.hpp"
#include "tests/simulation/message_faults.hpp"
#include "tests/simulation/simulated_engine.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

/// Rare paths of a fleet, by name.
std::span<const char* const> fleet_probe_names();

/// Models are loaded and unloaded one at a time until they are where they are wanted. One that is
/// to be unloaded gets no new request, and goes when the last one has ended; an engine that has
/// ended is opened anew.
class SimulatedFleet {
public:
  struct Hooks {
    std::function<void()> changed; ///< Who waits may have a place now, or none to wait for.
    std::function<void(const char*)> reached; ///< Told of probes,
    std::function<void(std::string)> failed;  ///< of what may not happen,
    std::function<void(const std::string&)> log;
  };
  /// problem: three devices. settings: of the engines of each model. ground: must outlive it.
  SimulatedFleet(Ground& ground, std::uint64_t seed, placement::Problem problem,
                 std::vector<Workload> settings, Hooks hooks);

  /// Other placements are wanted: one drawn at random, or planned for what was asked for.
  void draw_placement();
  void replan();

  enum class Routed { sent, waits, late, refused };
  /// A request came, or tries again. ended: told once, of the end of one that was sent.
  void note(int model) { controller_.note(model, now()); }
  Routed route(int model, SimulatedAnswer& answer, double deadline, std::function<void()> ended);

  double now() const { return base::seconds(ground_.system.now() - base::TimePoint{}); }
  /// Nothing is left to do: whether models are where they are wanted, and nobody has a request.
  void check();
  /// Ends all engines and lets go of them; the system then has to run until silence.
  void end();
  void check_pools(std::vector<std::string>& failures) const;

private:
  using Place = std::pair<int, int>; ///< Group and model.
  /// An engine, from when its actors are spawned.
  struct Host {
    Host(Ground& ground, Place where, Workload settings, std::uint64_t seed)
        : place(where), workload(std::move(settings)), engine(ground, workload, {.seed = seed}) {}
    const Place place;
    const Workload workload;
    SimulatedEngine engine;
    int open = 0;       ///< Requests.
    bool going = false; ///< It gets no new one.
  };

  void send(Host& host, SimulatedAnswer& answer, const placement::Controller::Ticket& ticket,
            std::function<void()> ended);
  void settle();
  void load(Place place);
  void loaded(Host& host, bool alive);
  void not_loaded(Place place);
  void withdraw(Host& host);
  void close(Host& host);
  void gone(Place place);
  void tell_controller();
  placement::Placement planned(const placement::Placement& all) const;
  /// Calls `then` after so many seconds in the mean.
  void later(double seconds, std::function<void()> then);

  Ground& ground_;
  const std::uint64_t seed_;
  Dice dice_;
  const placement::Problem problem_;
  const std::vector<Workload> settings_; ///< By model.
  Hooks hooks_;
  placement::Placement held_; ///< What takes memory: loading, serving or going.
  placement::Placement wanted_;
  std::vector<std::size_t> planned_; ///< Groups that have models, or may.
  placement::Controller controller_;
  std::optional<placement::Move> moving_;
  std::vector<std::unique_ptr<Host>> hosts_; ///< All that there were.
  std::map<Place, Host*> serving_;
  MessageFaults messages_;
};

} // namespace paceline::testing
