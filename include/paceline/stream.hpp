// One request's events, which a caller reads by waiting for them.
#pragma once

#include "paceline/event.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace paceline {

/// One request's events. Threads: one reader at a time; `cancel` from any. Destroying the stream
/// cancels the request. At most one Delta is buffered: new tokens are added to it until it is read.
///
/// The functions given to `on_ready` and `on_end` run on threads that engine or client keep for
/// them, one at a time for each stream: never inside a call of the caller's, never on a thread that
/// the engine works on. A slow function delays only the next call for its own stream. If it throws,
/// that is dropped and counted (Metrics::callback_failures). It may call anything, even `next`,
/// Engine::complete and Engine::shutdown, and destroy its stream or engine.
///
/// A stream of the parent gives no events and does nothing in a forked child.
class Stream {
public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  /// Waits for a function of this stream that is running, unless that function destroys the stream;
  /// so two functions must not each destroy the other one's stream.
  ~Stream();

  /// Waits for the next event; none after `Finished`.
  std::optional<Event> next();
  /// Waits for at most `time` (by the engine's clock): none if nothing came in that time, and the
  /// request goes on.
  std::optional<Event> next_for(std::chrono::nanoseconds time);
  /// Returns the next event if there is one now.
  std::optional<Event> try_next();
  /// Asks for the end of the request; the stream still delivers `Finished`. For an engine's stream
  /// this needs no memory; for a client's it may throw std::bad_alloc, and may be called again.
  void cancel();
  /// `wake` is called whenever `try_next` may find something, also for what is there already. It
  /// replaces the one before, which may still be running when this returns. Throws
  /// std::system_error if the system has no thread left.
  void on_ready(std::function<void()> wake);
  /// `told` is called once `Finished` has come, even if there are events to read before it.
  /// Otherwise this is like `on_ready`.
  void on_end(std::function<void()> told);
  std::uint64_t id() const;

  class Impl;
  explicit Stream(std::shared_ptr<Impl>);

private:
  std::shared_ptr<Impl> impl_;
};

} // namespace paceline
