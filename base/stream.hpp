// The hand-over of one request's events from their producer (the engine's facade, or a client's
// network thread) to the caller's thread.
#pragma once

#include "base/callbacks.hpp"
#include "base/event_sink.hpp"
#include "base/own_process.hpp"
#include "paceline/stream.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace paceline {

/// A queue of one request's events. Deltas that nobody has read yet are joined into one, so the
/// queue is bounded by the request's own tokens and holds at most three events. Threads: any. In a
/// forked child it is silent: nobody there would ever deliver anything.
class Stream::Impl final : public base::EventSink, public std::enable_shared_from_this<Impl> {
public:
  using Time = std::optional<std::chrono::nanoseconds>; ///< None: for ever.
  using Advance = std::function<bool(const std::function<bool()>&, Time)>;

  /// cancel: asks for the end of the request; called once at most. callbacks: runs the functions
  /// given to `on_ready` and `on_end`. advance: with virtual time, runs the engine until its first
  /// argument is true or its second has passed (returns false: nothing more will happen by then);
  /// empty in real time.
  Impl(std::uint64_t id, std::function<void()> cancel, std::shared_ptr<base::Callbacks> callbacks,
       Advance advance = nullptr);
  ~Impl() override;

  void deliver(Event event) override;
  std::optional<Event> next(Time time);
  std::optional<Event> try_next();
  void cancel();
  void on_ready(std::function<void()> wake);
  void on_end(std::function<void()> told);
  std::uint64_t id() const { return id_; }
  /// The caller's stream is gone: nothing is delivered any more, and when this returns none of the
  /// caller's functions is running, unless it is called from one of them.
  void close();

private:
  std::optional<Event> pop();
  bool readable() const { return !events_.empty() || ended_; }
  // These handle callbacks. They need `mutex_` held.
  void schedule();
  std::function<void()> due();
  void run_callbacks();

  const std::uint64_t id_;
  const base::OwnProcess process_;
  std::function<void()> cancel_;
  std::atomic<bool> cancelled_{false};
  const std::shared_ptr<base::Callbacks> callbacks_;
  Advance advance_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::deque<Event> events_;
  bool ended_ = false; ///< `Finished` was delivered or the stream closed.
  std::function<void()> wake_;
  std::function<void()> told_; ///< Told of the end.
  bool woken_ = false;         ///< Something came that `wake_` has not been called for.
  bool scheduled_ = false;     ///< `run_callbacks` is posted or running; there is one at a time.
  std::thread::id calling_;    ///< The thread that is in a function of the caller's.
  std::condition_variable quiet_;
};

} // namespace paceline
