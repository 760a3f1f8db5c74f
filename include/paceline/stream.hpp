// One request's events, read by waiting for them.
#pragma once

#include "paceline/event.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace paceline {

/// One request's events. Threads: one reader at a time; `cancel` from anywhere. Dropping the
/// stream cancels the request. At most one Delta is buffered: a slow reader finds one longer one.
///
/// The functions given to `on_ready` and `on_end` run on threads that engine or client keep for
/// them, one at a time for each stream: never inside a call of the caller's, never on a thread that
/// the engine works on. One that takes its time holds up nothing but its own stream's next call.
/// What one throws is dropped and counted (Metrics::callback_failures). It may call anything, also
/// `next`, Engine::complete and Engine::shutdown, and destroy its stream or engine.
///
/// In a forked child a stream of the parent's says nothing and does nothing.
class Stream {
public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  /// Waits for a function of this stream's that runs, unless that is what destroys it; so two
  /// functions must not each destroy the other one's stream.
  ~Stream();

  /// Waits for the next event; none after `Finished`.
  std::optional<Event> next();
  /// As `next`, for at most `time` (by the engine's clock): none where nothing came in it, and the
  /// request goes on.
  std::optional<Event> next_for(std::chrono::nanoseconds time);
  /// The next event if there is one now.
  std::optional<Event> try_next();
  /// Asks for the end; the stream still delivers `Finished`. An engine's needs no memory for it; a
  /// client's may throw std::bad_alloc, and be asked again.
  void cancel();
  /// `wake` is called whenever `try_next` may find something, at first if that is so already. It
  /// takes the place of the one before, which may still be running when this returns. Throws
  /// std::system_error if the system has no thread left.
  void on_ready(std::function<void()> wake);
  /// `told` is called once `Finished` has come, whatever there is to be read before it. As
  /// `on_ready` otherwise.
  void on_end(std::function<void()> told);
  std::uint64_t id() const;

  class Impl;
  explicit Stream(std::shared_ptr<Impl>);

private:
  std::shared_ptr<Impl> impl_;
};

} // namespace paceline
