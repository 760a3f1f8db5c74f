// The part of an engine's trace that shows a node.
#pragma once

#include "base/remote_clock.hpp"
#include "base/trace.hpp"
#include "messages/node.hpp"

#include <memory>
#include <optional>
#include <string>

namespace paceline::nodes {

/// The trace of one connection: asks what the node's clock shows, and writes down by this machine's
/// clock the spans of the node's lanes. Throws std::invalid_argument at values that a node cannot
/// have sent. Threads: one at a time.
class NodeTrace {
public:
  /// trace: null: nobody can want one. node: its name in the trace. While nobody wants spans, the
  /// node is asked for nothing.
  NodeTrace(std::shared_ptr<base::Trace> trace, std::string node)
      : trace_(std::move(trace)), node_(std::move(node)) {}

  /// Whether the node is to be asked now (messages::ReadClock): nobody waits for an answer.
  bool asks(base::TimePoint now);
  void take(const messages::ClockRead& answer, base::TimePoint now);
  void take(const messages::NodeSpans& news, base::TimePoint now);

private:
  std::shared_ptr<base::Trace> trace_;
  std::string node_;
  base::RemoteClock clock_;
  std::optional<base::TimePoint> asked_; ///< None: nobody is waiting for an answer.
};

} // namespace paceline::nodes
