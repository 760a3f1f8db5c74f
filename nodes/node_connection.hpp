// An engine's connection to a node, for the actor that stands for the node's draft or stage.
#pragma once

#include "messages/interfaces.hpp"
#include "nodes/network.hpp"
#include "nodes/node_trace.hpp"

#include <caf/send.hpp>
#include <chrono>
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

/// Dials for an actor, which is told Connected when there is a connection and when it is lost, and
/// watches over the connection: a node that does not answer for a heartbeat is gone. It reads the
/// node's clock if a trace is kept. The actor dies with an actor that it is linked to, but not with
/// the connection. Threads: the actor's.
class NodeConnection {
public:
  /// self: outlives this; its exit handler is taken. heartbeat: longest silence.
  NodeConnection(caf::scheduled_actor* self, std::chrono::milliseconds heartbeat,
                 std::shared_ptr<base::Trace> trace);
  NodeConnection(const NodeConnection&) = delete;
  NodeConnection& operator=(const NodeConnection&) = delete;

  void dial(const NodePlace& place);
  /// Takes a Connected. Returns why there is no connection; if there is one, says `hello` over it
  /// and returns none.
  template <class Hello>
  std::optional<std::string> begin(const messages::Connected& how, const NodePlace& place,
                                   const Hello& hello) {
    if (auto why = take(how, place))
      return why;
    say(hello);
    read_clock();
    return std::nullopt;
  }
  /// Ends the connection. False: there is none.
  bool drop();

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
  /// grace: how much longer it may take.
  bool is_silent(base::Duration grace = {}) const;
  /// Returns the pause after which the node is asked again.
  base::Duration pause() const { return heartbeat_ / 4; }
  /// Asks whether the node is alive, and what its clock shows.
  void ask();
  void read_clock();
  /// These throw std::invalid_argument at values that a node cannot have sent.
  void take(const messages::ClockRead& answer);
  void take(const messages::NodeSpans& news) { traced_.take(news, now()); }

private:
  std::optional<std::string> take(const messages::Connected& how, const NodePlace& place);
  base::TimePoint now() const { return self_->clock().now(); }

  caf::scheduled_actor* self_;
  std::chrono::milliseconds heartbeat_;
  std::shared_ptr<base::Trace> trace_;
  messages::LinkActor link_; ///< Null: there is no connection.
  caf::actor_addr ended_;    ///< The last link that ended, perhaps before the actor knew it.
  NodeTrace traced_;         ///< Trace of the node that it leads to, or led to last.
  base::TimePoint heard_;
};

} // namespace paceline::nodes
