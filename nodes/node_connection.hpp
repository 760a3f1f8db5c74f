// An engine's connection to a node, for the actor that stands for the node's draft or stage.
#pragma once

#include "messages/interfaces.hpp"
#include "nodes/network.hpp"
#include "nodes/node_trace.hpp"
#include "nodes/peer.hpp"

#include <atomic>
#include <caf/send.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace paceline::nodes {

/// A device of a node, and how to reach it.
struct NodePlace {
  std::string name;  ///< Name for messages, such as "node://127.0.0.1:7000/cpu:0".
  Connector connect; ///< Connects; the first message says what is wanted there.
};

/// How long a place has been without its node, which an actor that stands for a node leaves to the
/// next one. Only the first of them to find the node gone, and the one that finds it back, say so
/// in the log. Threads: any.
class NodeAbsence {
public:
  /// Notes that the node is gone. Returns true if it was there until now.
  bool begin(base::TimePoint now) {
    std::int64_t there = never;
    return since_.compare_exchange_strong(there, now.time_since_epoch().count());
  }
  /// Notes that the node is back. Returns true if it was gone.
  bool end() { return since_.exchange(never) != never; }
  /// Returns when the node was found gone; none: it is there.
  std::optional<base::TimePoint> since() const {
    const std::int64_t since = since_.load();
    if (since == never)
      return std::nullopt;
    return base::TimePoint(std::chrono::nanoseconds(since));
  }

private:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min();
  std::atomic<std::int64_t> since_{never}; ///< Engine's clock, nanoseconds.
};

/// What an actor that stands for a node's draft or stage does about the node, whatever it uses it
/// for. It dials, and the actor is told Connected when there is a connection and when it is lost.
/// It watches over the connection: a node that does not answer for a heartbeat is given up, as is
/// one that refuses or says what cannot be. It reads the node's clock if a trace is kept. The actor
/// dies with an actor that it is linked to, but not with the connection. Threads: the actor's.
///
/// The actor decides which node it asks next, and when: a draft ends at once, so that the
/// supervisor starts the next one after its growing pause, and a stage that is not there yet dials
/// itself, because the passes that wait with it would end with it.
class NodeConnection {
public:
  using GiveUp = std::function<void(const std::string& why)>;

  /// self: outlives this; its exit handler is taken. heartbeat: longest silence. given_up: called
  /// with the reason; it drops the connection or ends the actor.
  NodeConnection(caf::scheduled_actor* self, std::chrono::milliseconds heartbeat,
                 std::shared_ptr<base::Trace> trace, GiveUp given_up);
  NodeConnection(const NodeConnection&) = delete;
  NodeConnection& operator=(const NodeConnection&) = delete;

  void dial(const NodePlace& place);
  /// Takes a Connected: says `hello` over the connection, or gives the node up if there is none,
  /// and returns false.
  template <class Hello>
  bool begin(const messages::Connected& how, const NodePlace& place, const Hello& hello) {
    if (const auto why = take(how, place)) {
      given_up_(*why);
      return false;
    }
    say(hello);
    read_clock();
    return true;
  }
  /// Takes over a connection to a node that was made elsewhere. name: for traces.
  void use(const caf::actor& link, std::string name);
  /// Notes that the node does what `hello` asked for.
  void opened();
  bool is_open() const { return open_; }
  /// Ends the connection. False: there is none.
  bool drop();
  void refused(const messages::Refused& refused) { given_up_(refused.why.message); }
  /// Calls `take`, which takes a value of the node, and gives the node up if that cannot be.
  template <class Take>
  void believe(const Take& take) {
    nodes::believe(take, given_up_);
  }
  /// Ends the actor, which has lost what it stood for: the supervisor starts the next one.
  void end_actor() { self_->quit(caf::exit_reason::remote_link_unreachable); }

  explicit operator bool() const { return link_ != nullptr; }
  /// Whether the value that the actor handles now came over this connection, and not over one that
  /// was given up.
  bool is_sender() const { return link_ && self_->current_sender() == link_; }
  template <class Value>
  void say(Value&& value) {
    caf::unsafe_send_as(self_, link_, std::forward<Value>(value));
  }

  /// Notes that the node has answered.
  void hear() { heard_ = now(); }
  /// Whether there is a node that answers; one that has not for a heartbeat is given up. grace: how
  /// much longer it may take.
  bool answers(base::Duration grace = {});
  /// Returns the pause after which the node is asked again.
  base::Duration pause() const { return heartbeat_ / 4; }
  /// Asks whether the node is alive, and what its clock shows.
  void ask();
  void take(const messages::ClockRead& answer);
  void take(const messages::NodeSpans& news);

private:
  bool is_silent(base::Duration grace) const;
  void read_clock();
  std::optional<std::string> take(const messages::Connected& how, const NodePlace& place);
  base::TimePoint now() const { return self_->clock().now(); }

  caf::scheduled_actor* self_;
  std::chrono::milliseconds heartbeat_;
  std::shared_ptr<base::Trace> trace_;
  GiveUp given_up_;
  bool open_ = false;        ///< The node does what it was asked for.
  messages::LinkActor link_; ///< Null: there is no connection.
  caf::actor_addr ended_;    ///< The last link that ended, perhaps before the actor knew it.
  NodeTrace traced_;         ///< Trace of the node that it leads to, or led to last.
  base::TimePoint heard_;
};

} // namespace paceline::nodes
