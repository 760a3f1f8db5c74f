// One request's events, read by waiting for them.
#pragma once

#include "paceline/event.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace paceline {

/// One request's events. Threads: one reader at a time; `cancel` from anywhere. Dropping the
/// stream cancels the request. At most one Delta is buffered: a slow reader finds one longer one.
class Stream {
public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  /// Waits for the next event; none after `Finished`.
  std::optional<Event> next();
  /// The next event if there is one now.
  std::optional<Event> try_next();
  /// Asks for the end; the stream still delivers `Finished`.
  void cancel();
  /// `wake` is called, from a thread of the engine (or client), whenever `try_next` may find
  /// something.
  void on_ready(const std::function<void()>& wake);
  /// `told` is called, from a thread of the engine (or client), once `Finished` has come, whatever
  /// there is to be read before it.
  void on_end(const std::function<void()>& told);
  std::uint64_t id() const;

  class Impl;
  explicit Stream(std::shared_ptr<Impl>);

private:
  std::shared_ptr<Impl> impl_;
};

} // namespace paceline
