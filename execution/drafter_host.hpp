// The one place where a Drafter is called.
#pragma once

#include "base/telemetry.hpp"
#include "execution/limits.hpp"
#include "paceline/drafter.hpp"
#include "scheduling/draft_health.hpp"
#include "speculation/frontier.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace paceline::execution {

/// Calls a Drafter for all lanes that there ever are, one at a time: an abandoned lane may still be
/// in a call. Sees to it that each sequence begins and ends once in turn for the Drafter, and
/// disables a Drafter that keeps failing. Threads: any.
class DrafterHost {
public:
  DrafterHost(std::shared_ptr<Drafter> drafter, std::shared_ptr<base::Telemetry> telemetry)
      : drafter_(std::move(drafter)), telemetry_(std::move(telemetry)) {}

  /// Is called when a lane begins: the next call ends the sequences of the lane before.
  void begin_anew();
  /// The sequences of a lane, in the order of their ids.
  using Sequences = std::span<const speculation::Frontier* const>;
  /// Ends sequences that `alive` does not name, begins those that are new in it, and has the
  /// Drafter propose for `tasks`. Exceptions are counted, and the first one's message is logged.
  /// Returns false, and calls nothing, if another lane's call has not come back or the drafter is
  /// disabled.
  bool call(Sequences alive, std::span<DraftTask* const> tasks);
  bool is_disabled() const { return disabled_; }

private:
  void end_those_not_in(Sequences alive);
  void begin(const speculation::Frontier& at);
  void guard(const std::function<void()>& call);
  void failed(const std::string& why);

  const std::shared_ptr<Drafter> drafter_;
  const std::shared_ptr<base::Telemetry> telemetry_;
  std::atomic<bool> disabled_{false};
  std::atomic<bool> anew_{false};

  std::mutex calling_; ///< Held during a call; guards the members below.
  /// The sequences that the Drafter was told to begin and has not been told to end. They outlive
  /// the lane that began them, which takes what it knew of them with it.
  std::map<speculation::SequenceId, speculation::TokenLogView> begun_;
  scheduling::FailureCount failures_{limits::drafter_failures_max,
                                     limits::drafter_successes_per_failure};
  bool logged_ = false;
};

} // namespace paceline::execution
