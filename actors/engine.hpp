// The public Engine over the actors. Whoever opens one passes the interface that reaches other
// machines: Engine::open stands in nodes/engine.cpp.
#pragma once

#include "actors/opening.hpp"
#include "actors/system/runtime.hpp"
#include "base/admission.hpp"
#include "base/callbacks.hpp"
#include "base/own_process.hpp"
#include "base/stream.hpp"
#include "paceline/engine.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace paceline {

class Engine::Impl {
public:
  /// machines: reaches the devices on other machines that the options name; null: none may be
  /// named.
  static Result<std::unique_ptr<Impl>> open(EngineOptions options,
                                            const actors::OtherMachines* machines);
  ~Impl();

  Result<Stream> submit(const Request& request);
  base::Duration now() const { return time_->now() - opened_; }
  bool run_until(const std::function<bool()>& reached, base::Duration until);
  Result<void> shutdown(std::chrono::milliseconds drain);
  LaneWatch watch_lanes() const;
  std::uint64_t callback_failures() const { return callbacks_->failures(); }

  actors::EngineContext context;
  const base::OwnProcess process;

private:
  Impl(EngineOptions options, const actors::OtherMachines* machines);
  Result<void> start();
  std::shared_ptr<Stream::Impl> make_stream(std::uint64_t id);
  bool lanes_closed();
  void leave_behind();
  std::uint64_t draw_seed();

  EngineOptions options_;
  std::shared_ptr<base::Trace> trace_;
  std::unique_ptr<actors::Runtime> runtime_;
  std::shared_ptr<actors::ActorTimekeeper> time_; ///< The runtime's; outlives it.
  base::TimePoint opened_;
  messages::SupervisorActor supervisor_;
  std::mutex shutting_down_;
  std::shared_mutex closing_; ///< Held shared to submit, and exclusively to take the engine apart.
  /// Streams may outlive the engine, so they hold this weakly.
  std::shared_ptr<const messages::FacadeActor> facade_;
  std::shared_ptr<base::Callbacks> callbacks_;
  std::optional<base::Admission> admission_;
  std::atomic<std::uint64_t> requests_{0};
};

} // namespace paceline
