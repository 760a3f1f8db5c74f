// A request's events in Python, by waiting for them or through an event loop.
#pragma once

#include "paceline/stream.hpp"
#include "python/src/results.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unistd.h>
#include <unordered_set>
#include <vector>

namespace paceline::python {

/// Streams that have something to read, for one event loop, which watches `descriptor`. The
/// engine's side takes no lock of the interpreter. Threads: `push` from any.
class Wakeups {
public:
  Wakeups();
  ~Wakeups();
  Wakeups(const Wakeups&) = delete;
  Wakeups& operator=(const Wakeups&) = delete;

  int descriptor() const { return descriptor_; }
  void push(std::uint64_t key);
  /// Returns the keys pushed since the last call, each once.
  std::vector<std::uint64_t> take();

private:
  const int descriptor_;
  std::mutex mutex_;
  std::unordered_set<std::uint64_t> ready_;
};

/// The same as an object of Python. A function of the engine's keeps what is inside, not this: it
/// must be able to let go of it without the interpreter's lock.
struct LoopWakeups {
  std::shared_ptr<Wakeups> inside = std::make_shared<Wakeups>();
};

/// One request. Threads: as Python's lock has it; a second reader is refused while one waits.
class OpenStream {
public:
  explicit OpenStream(Stream stream) : stream_(std::move(stream)) {}

  /// Waits for new tokens; none when the answer is whole. Signals interrupt it, and end the
  /// request. Raises what the request failed with.
  std::optional<Delta> next();
  /// Returns new tokens if there are some now.
  std::optional<Delta> poll();
  /// Waits for the end of the answer.
  void finish();
  void cancel() { stream_.cancel(); }
  /// Pushes `key` whenever `poll` may find something or, with `at_end`, once the request has ended.
  void watch(const LoopWakeups& wakeups, std::uint64_t key, bool at_end);

  const Answer& answer() const { return answer_; }

private:
  /// Takes events until there is a Delta, the answer's end, or a tenth of a second has passed.
  /// whole: takes Deltas, too.
  std::optional<Delta> wait(bool whole);
  std::optional<Delta> take(Event event);

  Stream stream_;
  Answer answer_;
  bool read_ = false; ///< A thread waits.
  const pid_t process_ = getpid();
};

} // namespace paceline::python
