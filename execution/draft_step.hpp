// The draft lane's work: each pass takes every sequence one token further, or a block of tokens if
// the draft writes such, up to its chain's end.
#pragma once

#include "base/telemetry.hpp"
#include "execution/draft_queue.hpp"
#include "execution/lookup_turn.hpp"
#include "execution/row_pool.hpp"
#include "gpu/lane.hpp"
#include "models/model.hpp"
#include "speculation/draft_planner.hpp"

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline::execution {

/// One step that goes on as long as there is something to draft: between two tokens it takes the
/// news in its queue, so that a verdict takes effect without a new submission. The same object is
/// submitted again and again, never twice at once (DraftQueue::claim_lane). The planner decides
/// what a pass does; this class has it computed. Only the lane touches the state below.
///
/// A pass behind one that only goes on with chains is prepared, on a lane that holds work ready,
/// before its tokens are known to the host: the device finds them by itself, and draws a whole
/// window without the host in between. A verdict then takes effect a token later at most. If a
/// look-up or the form of an answer has turns between passes, what it knows of each token comes
/// first.
class DraftStep final : public gpu::Step {
public:
  struct Parts {
    std::shared_ptr<const models::Model> model;
    std::shared_ptr<gpu::Device> device;
    std::shared_ptr<gpu::KvPool> pool;
    int vocabulary = 0; ///< The target's without padding; q rows have this length.
    int max_num_seqs = 0;
    int fork_rows = 0; ///< Most rows that forks have in a pass, over all sequences.
    std::shared_ptr<base::Telemetry> telemetry;
    std::size_t q_rows; ///< Most q rows lent at a time; 0: nothing is drafted where q is needed.
    std::shared_ptr<gpu::Device> reader{}; ///< Verifies, so reads q rows; null: `device`.
    /// Maps between the vocabularies of draft and target. Null: the draft has the target's.
    std::shared_ptr<const text::VocabularyMap> map{};
    /// The draft's column of logits for each of the target's ids; -1: the draft cannot say that
    /// token. Empty: the columns are the ids, or those of `map`.
    std::vector<TokenId> says{};
    /// The pool in which the target leaves the values that a draft that is a head on it reads.
    std::shared_ptr<gpu::KvPool> target_pool{};
    std::shared_ptr<DrafterHost> lookup{}; ///< Look-up with turns on this lane; null: none.
    /// Device of the q rows of a look-up and of forms: the host. Null: neither drafts.
    std::shared_ptr<gpu::Device> lookup_device{};
  };
  /// Throws std::runtime_error when the device has no memory for a workspace.
  DraftStep(Parts parts, std::shared_ptr<DraftQueue> queue);

  std::string name() const override { return "draft"; }
  bool in_shards() const override { return true; }
  Next prepare(base::TimePoint now) override;
  bool prepare_behind(base::TimePoint now) override;
  gpu::Work work() const override;
  void run(gpu::Operations& operations) override;
  void complete(base::TimePoint now) override;
  void retire(const gpu::Retirement& how) override;

private:
  /// Further inputs of drawing a token.
  struct Draw {
    std::vector<TokenId> prefix; ///< Output tokens that the log does not have (for penalties).
    speculation::QRow q;
    const TokenId* pending = nullptr; ///< The place where the token to feed will be.
  };
  struct Pass {
    speculation::DraftPass plan;
    std::vector<Draw> draws;             ///< Of the parts that draw, in their order, as the next:
    std::vector<gpu::ProposeTask> tasks; ///< One for each token drawn.
    std::vector<gpu::PageCopy> copies;
    models::Workspace* workspace = nullptr;
    int rows = 0;  ///< Rows fed.
    int masks = 0; ///< Rows beside them that stand for tokens to be drawn.
    bool has_run = false;
    base::TimePoint begin;
  };

  /// Returns the pass with this number, which is one of the last three.
  Pass& pass(std::size_t number) { return passes_[number % passes_.size()]; }
  const Pass& pass(std::size_t number) const { return passes_[number % passes_.size()]; }
  void take(std::vector<speculation::Frontier> news);
  void begin(speculation::DraftPass plan, const Pass* before, models::Workspace& workspace,
             base::TimePoint now);
  models::SequenceRows rows_for(const speculation::DraftRows& rows, const TokenId* pending) const;
  models::Features features_of(const speculation::DraftRows& rows) const;
  void begin_drawing(const speculation::DraftRows& rows, std::span<Draw> draws);
  gpu::ProposeTask task(const speculation::DraftRows& rows, Draw& draw, int position,
                        const float* logits) const;
  bool can_follow(const Pass& before);
  bool is_divided() const { return !parts_.device->shards().empty(); }
  gpu::Device& drawing_device() const;
  void map_columns();
  void draw(gpu::Operations& operations, Pass& pass) const;
  gpu::Tensor drawn_from(const Pass& pass) const;
  void complete(speculation::DraftRows& rows, std::span<Draw> draws,
                std::span<const gpu::ProposeTask> drawn, base::Duration share);

  Parts parts_;
  int drawable_;  ///< Ids that both models have.
  int drawn_max_; ///< Most tokens that a pass draws.
  std::shared_ptr<DraftQueue> queue_;
  std::shared_ptr<models::Workspace> workspace_;
  std::unique_ptr<models::Workspace> workspace_behind_; ///< Made when it is first wanted.
  std::shared_ptr<RowPool> rows_;
  std::shared_ptr<gpu::Buffer>
      columns_; ///< Columns of logits by the target's ids, if there is `says`.
  std::shared_ptr<gpu::Buffer> mapped_; ///< The logits of those columns.

  std::optional<LookupTurn> lookup_;
  speculation::DraftPlanner planner_;
  speculation::DraftPace pace_;
  /// Used in turn: two may be under way, and the first of them reads what the one before it drew.
  std::array<Pass, 3> passes_;
  std::size_t prepared_ = 0; ///< Passes prepared so far.
  std::size_t completed_ = 0;
  base::TimePoint last_end_;
};

} // namespace paceline::execution
