// Where the functions run that callers gave to their streams.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace paceline::base {

/// Runs callers' functions on threads of their own, so that what they do, for however long, holds
/// up nobody but themselves. Threads begin when they are needed, one more whenever a function waits
/// while another one runs, up to limits::callback_threads_max; beyond that functions wait.
/// Destroying it waits for no function: what streams have to run keeps it alive.
/// Threads: any.
class Callbacks {
public:
  using Function = std::function<void()>;

  enum class Mode {
    threads,
    on_request, ///< Only `run_pending` runs them: in virtual time there is one thread.
  };
  explicit Callbacks(Mode mode = Mode::threads);
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  /// Has a thread ready. Throws std::system_error where the system has none left.
  void start();
  /// Runs `job` soon. What it throws is caught by nobody: see `call`.
  void post(Function job);
  /// On the calling thread, until nothing is left.
  void run_pending();
  bool pending() const;

  /// Calls a caller's function; what it throws is dropped, and counted.
  void call(const Function& function) noexcept;
  std::uint64_t failures() const;

private:
  struct State;
  std::shared_ptr<State> state_; // threads hold it too: the last to let go may be one of them
};

} // namespace paceline::base
