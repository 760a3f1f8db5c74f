// The hand-over from whoever produces one request's events (the engine's facade, a client's network
// thread) to the caller's thread.
#pragma once

#include "base/event_sink.hpp"
#include "paceline/stream.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace paceline {

/// Deltas that nobody has read yet are joined into one, so that the queue is bounded by the
/// request's own tokens and holds at most three events. Threads: any.
class Stream::Impl final : public base::EventSink {
public:
  /// cancel: asks for the request's end. advance: in virtual time, runs the engine until its
  /// argument is true (returns false: nothing more will happen); empty in real time.
  Impl(std::uint64_t id, std::function<void()> cancel,
       std::function<bool(const std::function<bool()>&)> advance);
  ~Impl() override;

  void deliver(Event event) override;
  std::optional<Event> next();
  std::optional<Event> try_next();
  void cancel() { cancel_(); }
  void on_ready(const std::function<void()>& wake);
  void on_end(const std::function<void()>& told);
  std::uint64_t id() const { return id_; }
  /// The caller has let go: nothing is delivered any more.
  void close();

private:
  std::optional<Event> pop();
  bool readable() const { return !events_.empty() || ended_; }

  const std::uint64_t id_;
  std::function<void()> cancel_;
  std::function<bool(const std::function<bool()>&)> advance_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::deque<Event> events_;
  bool ended_ = false; ///< `Finished` was delivered or the stream closed.
  std::function<void()> wake_;
  std::function<void()> told_; ///< Of the end.
};

} // namespace paceline
