// What a node's lanes do, for an engine that keeps a trace.
#pragma once

#include "gpu/lane.hpp"
#include "messages/node.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace paceline::nodes {

/// Threads: any.
class SpanLog {
public:
  /// ahead: what the machine's clock is said to show more than it does (NodeOptions::clock_ahead).
  explicit SpanLog(base::Duration ahead) : ahead_(ahead) {}

  void begin() { begun_.store(true, std::memory_order_relaxed); }
  bool begun() const { return begun_.load(std::memory_order_relaxed); }
  /// Once it has begun.
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

/// The step, whose pieces go to the log. row: the lane's name.
std::shared_ptr<gpu::Step> logged(std::shared_ptr<SpanLog> log, std::string row,
                                  std::shared_ptr<gpu::Step> step);

} // namespace paceline::nodes
