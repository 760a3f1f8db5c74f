// The threads that run the functions that callers gave to their streams.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace paceline::base {

/// Runs callers' functions on threads of their own, so that a function that takes long holds up
/// nobody else. Threads begin when they are needed, one more whenever a function waits while
/// another one runs, up to limits::callback_threads_max; beyond that functions wait. Destroying
/// this object waits for no function, for a stream whose function runs keeps it alive. Threads:
/// any.
class Callbacks {
public:
  using Function = std::function<void()>;

  enum class Mode {
    threads,
    on_request, ///< Only `run_pending` runs them: with virtual time there is one thread.
  };
  explicit Callbacks(Mode mode = Mode::threads);
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  /// Makes sure that there is a thread. Throws std::system_error if the system has none left.
  void start();
  /// Runs `job` soon. Nobody catches what it throws: see `call`.
  void post(Function job);
  /// Runs functions on the calling thread until none is left.
  void run_pending();
  bool pending() const;

  /// Calls a caller's function; what it throws is dropped, and counted.
  void call(const Function& function) noexcept;
  std::uint64_t failures() const;

private:
  struct State;
  std::shared_ptr<State> state_; // threads hold it too: the last to release it may be one of them
};

} // namespace paceline::base
