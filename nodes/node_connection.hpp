// An engine's connection to a node, for the actor that stands for what is there.
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

/// Where something is: a node's device.
struct NodePlace {
  std::string name;  ///< For messages: "node://127.0.0.1:7000/cpu:0"
  Connector connect; ///< What is wanted there goes over the connection.
};

/// Dials for an actor, which is told Connected when there is a connection and when it is lost, and
/// watches over it: who does not answer for a heartbeat is gone. It reads the node's clock, where a
/// trace is kept. The actor dies with whoever it is linked to, but not with the connection.
/// Threads: the actor's.
class NodeConnection {
public:
  /// self: outlives this; its exit handler is taken. heartbeat: of silence at most.
  NodeConnection(caf::scheduled_actor* self, std::chrono::milliseconds heartbeat,
                 std::shared_ptr<base::Trace> trace);
  NodeConnection(const NodeConnection&) = delete;
  NodeConnection& operator=(const NodeConnection&) = delete;

  void dial(const NodePlace& place);
  /// It has been told: why there is none, or none; then it says `hello` over it.
  template <class Hello>
  std::optional<std::string> begin(const messages::Connected& how, const NodePlace& place,
                                   const Hello& hello) {
    if (auto why = take(how, place))
      return why;
    say(hello);
    read_clock();
    return std::nullopt;
  }
  /// Ends it. False: there is none.
  bool drop();

  explicit operator bool() const { return link_ != nullptr; }
  /// Whether what the actor handles now came over it: not over one that was given up.
  bool is_sender() const { return link_ && self_->current_sender() == link_; }
  template <class Value>
  void say(Value&& value) {
    caf::unsafe_send_as(self_, link_, std::forward<Value>(value));
  }

  /// The node is there.
  void hear() { heard_ = now(); }
  /// grace: what it may take longer.
  bool is_silent(base::Duration grace = {}) const;
  /// The pause after which the node is asked again.
  base::Duration pause() const { return heartbeat_ / 4; }
  /// Asks whether it is there, and what its clock shows.
  void ask();
  void read_clock();
  /// Throw std::invalid_argument at what a node cannot have said.
  void take(const messages::ClockRead& answer);
  void take(const messages::NodeSpans& news) { traced_.take(news, now()); }

private:
  std::optional<std::string> take(const messages::Connected& how, const NodePlace& place);
  base::TimePoint now() const { return self_->clock().now(); }

  caf::scheduled_actor* self_;
  std::chrono::milliseconds heartbeat_;
  std::shared_ptr<base::Trace> trace_;
  messages::LinkActor link_; ///< Null: there is none.
  caf::actor_addr ended_;    ///< The last link that has ended, perhaps before it was told of.
  NodeTrace traced_;         ///< Of where it leads, or led last.
  base::TimePoint heard_;
};

} // namespace paceline::nodes
