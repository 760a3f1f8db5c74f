// A connection between two simulated machines: bytes both ways, in order, that take their time.
#pragma once

#include "base/clock.hpp"
#include "nodes/link.hpp"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::testing {

using nodes::LinkEnd;

/// What lies between the machines, for all connections of a run. It may outlive their system.
class Way {
public:
  virtual ~Way() = default;
  virtual base::TimePoint now() const = 0;
  /// When bytes get there that are sent now; never before those that were sent earlier.
  virtual base::TimePoint arrival(LinkEnd from) = 0;
  virtual void after(base::Duration delay, std::function<void()> then) = 0;
  /// Bytes are about to be sent, which is an occasion for faults. What remains of them where the
  /// connection is cut in them.
  virtual std::optional<std::size_t> cut_within(std::size_t bytes) = 0;
  /// Where a run of so many bytes comes apart on the way; it may be `bytes`.
  virtual std::size_t comes_apart(std::size_t bytes) = 0;
  /// Whether the machine there is up: it then says of connections that it does not know them.
  virtual bool is_up(LinkEnd end) const = 0;
};

/// A connection like TCP's: what arrives, arrives once and in order, up to where it ends, in
/// pieces of any size. An end that is closed says so, and hears no more, unless it is half open.
/// Only the socket is simulated: at each end is the real link with its frames. Threads: the virtual
/// system's.
class SimulatedWire : public std::enable_shared_from_this<SimulatedWire> {
public:
  /// ended: told when the engine's end hears that there will be no more.
  SimulatedWire(std::shared_ptr<Way> way, std::function<void()> ended)
      : way_(std::move(way)), ended_(std::move(ended)) {}

  /// Spawns the actor at an end, which passes on to `owner` and dies with it.
  caf::actor spawn_link(caf::actor_system& system, LinkEnd end, const caf::actor& owner);
  /// Its machine is gone, and can tell nobody.
  void vanish(LinkEnd end);
  /// What lies between has forgotten the connection: nothing that is sent gets anywhere.
  void forget() { cut_ = true; }

private:
  class End;
  struct Side {
    caf::actor link; ///< CAF ends an actor that nobody refers to. Null: it is closed.
    std::vector<char> arrived;
    std::size_t awaited = 0;
    base::TimePoint last{}; ///< When what was sent here before gets here.
    bool reads = true;
  };

  Side& at(LinkEnd end) { return sides_[end == LinkEnd::node]; }
  static LinkEnd other(LinkEnd end) {
    return end == LinkEnd::node ? LinkEnd::engine : LinkEnd::node;
  }
  void send(LinkEnd from, std::vector<char> bytes);
  void close(LinkEnd end);
  void hang_up(LinkEnd end);
  void arrive(LinkEnd end, const std::vector<char>& bytes);
  base::Duration time_to(LinkEnd end);

  std::shared_ptr<Way> way_;
  std::function<void()> ended_;
  std::array<Side, 2> sides_;
  bool cut_ = false;
};

} // namespace paceline::testing
