// The spans of a node's lanes, for an engine that keeps a trace.
#pragma once

#include "gpu/lane.hpp"
#include "messages/node.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace paceline::nodes {

/// Collects spans. Threads: any.
class SpanLog {
public:
  /// ahead: how far the machine's clock is made to show ahead (NodeOptions::clock_ahead).
  explicit SpanLog(base::Duration ahead) : ahead_(ahead) {}

  void begin() { begun_.store(true, std::memory_order_relaxed); }
  bool begun() const { return begun_.load(std::memory_order_relaxed); }
  /// Adds a span. To be called only after `begin`.
  void add(messages::NodeSpan span);
  /// Takes as many spans as go into a message; others follow with the next one.
  messages::NodeSpans take();
  base::TimePoint by_its_clock(base::TimePoint now) const { return now + ahead_; }

private:
  const base::Duration ahead_;
  std::atomic<bool> begun_{false};
  std::mutex mutex_;
  messages::NodeSpans spans_;
};

/// Wraps a step so that its pieces go to the log. row: the lane's name.
std::shared_ptr<gpu::Step> logged(std::shared_ptr<SpanLog> log, std::string row,
                                  std::shared_ptr<gpu::Step> step);

} // namespace paceline::nodes
