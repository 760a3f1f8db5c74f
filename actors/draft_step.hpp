// The draft lane's work: every sequence one token further per pass, as far as its chain reaches.
#pragma once

#include "actors/draft_board.hpp"
#include "actors/draft_forks.hpp"
#include "actors/row_pool.hpp"
#include "actors/telemetry.hpp"
#include "gpu/lane.hpp"
#include "models/model.hpp"

#include <map>
#include <memory>
#include <vector>

namespace paceline::actors {

/// One step for as long as there is something to draft: between two tokens it reads the board, so
/// that a verdict takes effect without a new submission. The same object is submitted again and
/// again, never twice at once (DraftBoard::enlist). All state below is the lane's alone.
class DraftStep final : public gpu::Step {
public:
  struct Parts {
    std::shared_ptr<const models::Model> model;
    std::shared_ptr<gpu::Device> device;
    std::shared_ptr<gpu::KvPool> pool;
    int vocabulary = 0; ///< The target's without padding; q rows have this length.
    int max_num_seqs = 0;
    int fork_rows = 0; ///< Most rows that forks have in a pass, over all sequences.
    std::shared_ptr<Telemetry> telemetry;
    std::shared_ptr<gpu::Device> reader{}; ///< Verifies, so reads q rows; null: `device`.
  };
  /// Throws std::runtime_error when the device has no memory for a workspace.
  DraftStep(Parts parts, std::shared_ptr<DraftBoard> board);

  std::string name() const override { return "draft"; }
  Next prepare(base::TimePoint now) override;
  gpu::Work work() const override;
  void run(gpu::Operations& operations) override;
  void complete(base::TimePoint now) override;
  void retire(const gpu::Retirement& how) override;

private:
  struct Sequence {
    messages::Frontier at;
    std::vector<TokenId> fed; ///< Tokens in the draft's pages, by position.
    int agreed = 0;           ///< Of these, leading ones known to be committed.
    ForkSet forks;
  };
  /// What a sequence wants next: the tokens of positions [start, end) fed, and then the token at
  /// `draws` (-1: none, it only reads).
  struct Reach {
    int start = 0;
    int end = 0;
    int draws = -1;
    bool far() const; ///< Too much for the pass that draws: it catches up first.
  };
  /// One sequence's, or one of its forks', part of a pass.
  struct Part {
    Sequence* sequence = nullptr;
    Fork* fork = nullptr;        ///< Null: the sequence's own chain.
    std::vector<TokenId> tokens; ///< To feed, from position `start`.
    int start = 0;
    int draws = -1;              ///< Position drawn after them; -1: none (catching up).
    std::vector<TokenId> prefix; ///< Output tokens that the log does not have (for penalties).
    messages::QRow q;

    messages::Chain& chain() const { return fork ? *fork->chain : *sequence->at.chain; }
    const std::vector<std::uint32_t>& pages() const {
      return fork ? fork->pages : sequence->at.pages->ids;
    }
    TokenId token_at(int position) const;
  };

  void absorb(DraftBoard::News news);
  void absorb(messages::Frontier frontier);
  void choose();
  Reach reach_of(const Sequence& sequence) const;
  void choose(Sequence& sequence, const Reach& reach, int& budget);
  void choose_forks();
  int context() const;
  void plan();
  gpu::ProposeTask task(Part& part, const float* logits);

  Parts parts_;
  int drawable_; ///< Ids that both models have.
  std::shared_ptr<DraftBoard> board_;
  std::shared_ptr<models::Workspace> workspace_;
  std::shared_ptr<RowPool> rows_;

  std::map<messages::SequenceId, Sequence> sequences_;
  std::vector<Part> pass_; ///< Of the pass being made.
  std::vector<gpu::PageCopy> copies_;
  std::vector<gpu::ProposeTask> tasks_;
  int rows_fed_ = 0;
  int fork_rows_ = 0; ///< Of these, forks'.
  base::TimePoint begin_;
};

} // namespace paceline::actors
