// The target lane's verification of one batch, enqueued behind its forward pass.
#pragma once

#include "base/telemetry.hpp"
#include "execution/forward_pass.hpp"
#include "gpu/lane.hpp"
#include "scheduling/round.hpp"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace paceline::execution {

/// The result of a verification: the same news for the scheduler and for the draft.
struct Judged {
  scheduling::Verdicts verdicts;
  speculation::Frontiers frontiers;
};

/// Judges windows row by row; then what goes on behind them: where a guess took a rejected token's
/// place, the path with that guess (token_tree.hpp); where a whole window was accepted, the
/// lookahead's first token if that position was bound when the pass ended (read once, before
/// anything was judged, which keeps `rejection` exact: docs/theory.md). Writes the verdicts, turns
/// the chains over to what comes next, decides whether the pre-enqueued batch behind it runs, and
/// hands verdicts and frontiers to `done` on the lane's thread. Nothing is judged, and nobody told,
/// where a pre-enqueued batch did not run.
class VerifyStep final : public gpu::Step {
public:
  using Done = std::function<void(Judged)>;
  /// vocabulary: ids that are not padding. check_draws: repeat every draft draw from the q shown.
  VerifyStep(std::shared_ptr<ForwardPass> pass, int vocabulary, bool check_draws,
             std::shared_ptr<base::Telemetry> telemetry, Done done);

  std::string name() const override { return "verify"; }
  Next prepare(base::TimePoint now) override;
  gpu::Work work() const override;
  void run(gpu::Operations& operations) override;
  void complete(base::TimePoint now) override;
  void retire(const gpu::Retirement& how) override;

private:
  enum class Phase { windows, behind, done };
  /// One entry on its way to a verdict.
  struct Case {
    std::vector<TokenId> window;
    std::vector<const float*> q;
    std::vector<TokenId> prefix; ///< Tokens that the log may lack, and the window once accepted.
    bool bound_behind = false;   ///< The position behind them was bound when the pass ended.
    TokenId lookahead = 0;
    const float* lookahead_q = nullptr;
    const TreePath* path = nullptr; ///< The one that goes on behind the window.
    scheduling::Verdict verdict;
  };

  void begin_work(base::TimePoint now);
  void end_work(base::TimePoint now);
  void open_cases();
  void plan_windows();
  void plan_behind();
  int position_behind(std::size_t index) const;
  gpu::VerifyTask lookahead_task(std::size_t index);
  gpu::VerifyTask path_task(std::size_t index);
  void postpone(std::size_t index);
  bool is_settled(std::size_t index) const;
  bool is_models_own(std::size_t index, int row) const;
  gpu::VerifyTask task(std::size_t index, int row) const;
  void plan_scores();
  void take_windows();
  void take_behind();
  const TreePath* path_of(std::size_t index, const gpu::VerifyTask& judged) const;
  static void take_tokens(scheduling::Verdict& verdict, gpu::VerifyTask& task,
                          TokenSource accepted);
  static void count(scheduling::Verdict& verdict, const gpu::VerifyTask& task);
  speculation::TargetFeatures features_behind(std::size_t index) const;
  void let_go_on(std::span<const scheduling::Resolution> resolved, scheduling::Verdicts& verdicts);
  scheduling::Resolution hand_over(std::size_t index, Judged& judged);

  std::shared_ptr<ForwardPass> pass_;
  int vocabulary_;
  bool check_draws_;
  std::shared_ptr<base::Telemetry> telemetry_;
  Done done_;

  Phase phase_ = Phase::windows;
  bool ran_ = false;
  bool at_work_ = false;
  std::vector<Case> cases_;
  std::vector<gpu::VerifyTask> tasks_;
  std::vector<std::size_t> owners_; ///< tasks_[i] belongs to cases_[owners_[i]].
  std::vector<gpu::ScoreTask> scores_;
  std::vector<std::size_t> score_owners_;
  base::TimePoint deadline_;
  int judged_rows_ = 0;
};

} // namespace paceline::execution
