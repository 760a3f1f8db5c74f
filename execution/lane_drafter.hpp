// A Drafter on one lane.
#pragma once

#include "base/telemetry.hpp"
#include "execution/drafter_host.hpp"
#include "execution/drafter_task.hpp"

#include <memory>
#include <vector>

namespace paceline::execution {

/// A Drafter, with the rows of q and the tasks that one lane has for it, whether the lane is its
/// own (DrafterStep) or a model's (LookupTurn). Threads: the lane's.
class LaneDrafter {
public:
  struct Parts {
    std::shared_ptr<DrafterHost> host;   ///< Null: nothing but the answers' forms drafts.
    std::shared_ptr<gpu::Device> device; ///< A device on the host (Device::on_host).
    int vocabulary = 0;
    std::shared_ptr<base::Telemetry> telemetry;
    std::size_t q_rows; ///< Most q rows lent at a time; 0: nothing is drafted where q is needed.
    std::shared_ptr<gpu::Device> reader{}; ///< Verifies, so reads q rows; null: `device`.
  };
  explicit LaneDrafter(Parts parts);

  /// Adds a task to those of the next call, which binds its positions. Frontier, text and form are
  /// the sequence's, and stay where they are until `complete` or `abandon`.
  void ask(const speculation::Frontier& at, speculation::DraftedText& text,
           speculation::FormGuesses& form,
           DrafterTask::Beside beside = DrafterTask::Beside::nobody) {
    tasks_.emplace_back(at, text, form, rows_, beside);
  }
  const std::vector<DrafterTask>& tasks() const { return tasks_; }
  /// Calls the Drafter for the tasks that ask for it. alive: all sequences of the lane.
  void propose(DrafterHost::Sequences alive);
  /// Puts what was proposed into the chains, each of which ends behind it if that is less than was
  /// asked for.
  void complete();
  /// Drops the tasks.
  void abandon() { tasks_.clear(); }
  bool is_disabled() const { return parts_.host && parts_.host->is_disabled(); }
  base::Telemetry& telemetry() const { return *parts_.telemetry; }

private:
  Parts parts_;
  DrafterTask::Rows rows_;
  std::vector<DrafterTask> tasks_;
};

} // namespace paceline::execution
