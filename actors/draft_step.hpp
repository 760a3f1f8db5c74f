// The draft lane's work: every sequence one token further per pass, as far as its chain reaches.
#pragma once

#include "actors/draft_board.hpp"
#include "actors/draft_forks.hpp"
#include "actors/row_pool.hpp"
#include "actors/telemetry.hpp"
#include "gpu/lane.hpp"
#include "models/model.hpp"

#include <array>
#include <map>
#include <memory>
#include <vector>

namespace paceline::actors {

/// One step for as long as there is something to draft: between two tokens it reads the board, so
/// that a verdict takes effect without a new submission. The same object is submitted again and
/// again, never twice at once (DraftBoard::enlist). All state below is the lane's alone.
///
/// A pass is a piece. Where the lane holds pieces ready, the pass behind one that only goes on with
/// chains is prepared before its tokens are known to the host: the device finds them by itself, and
/// draws a whole window without the host in between. A verdict then takes effect a token later at
/// most.
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
  bool prepare_behind(base::TimePoint now) override;
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
    const TokenId* unseen = nullptr; ///< Where the token to feed is: the pass before draws it.

    messages::Chain& chain() const { return fork ? *fork->chain : *sequence->at.chain; }
    const std::vector<std::uint32_t>& pages() const {
      return fork ? fork->pages : sequence->at.pages->ids;
    }
    TokenId token_at(int position) const;
    bool lacks_q() const { return sequence->at.spec->needs_q() && !q; }
  };
  struct Pass {
    std::vector<Part> parts;
    std::vector<gpu::PageCopy> copies;
    std::vector<gpu::ProposeTask> tasks; ///< Of the parts that draw, in their order.
    models::Workspace* workspace = nullptr;
    int rows = 0;            ///< Fed.
    int fork_rows = 0;       ///< Of these, forks'.
    bool hurries = false;    ///< For a window that somebody waits for, or will soon.
    bool leaves_out = false; ///< There is more to do when no pass hurries any more.
    bool has_run = false;
    base::TimePoint begin;
  };

  void absorb(DraftBoard::News news);
  void absorb(messages::Frontier frontier);
  /// The pass with this number; of the last three.
  Pass& pass(std::size_t number) { return passes_[number % passes_.size()]; }
  const Pass& pass(std::size_t number) const { return passes_[number % passes_.size()]; }
  /// An empty one behind those that were prepared.
  Pass& next_pass(base::TimePoint now);
  void choose(Pass& pass);
  Reach reach_of(const Sequence& sequence) const;
  static void choose(Pass& pass, Sequence& sequence, const Reach& reach, int& budget);
  void choose_forks(Pass& pass);
  void follow(Pass& pass, const Pass& before) const;
  bool make_room_behind();
  int context() const;
  int context(const Sequence& sequence) const;
  void plan(Pass& pass, models::Workspace& workspace);
  gpu::ProposeTask task(Part& part, const float* logits);
  static void take_drawn(Part& part, const gpu::ProposeTask& drawn);
  void note_time(const Pass& pass, base::Duration took) const;

  Parts parts_;
  int drawable_; ///< Ids that both models have.
  std::shared_ptr<DraftBoard> board_;
  std::shared_ptr<models::Workspace> workspace_;
  std::unique_ptr<models::Workspace> workspace_behind_; ///< Made when it is first wanted.
  std::shared_ptr<RowPool> rows_;

  std::map<messages::SequenceId, Sequence> sequences_;
  /// In turn: two may be under way, and the first of them reads what the one before it drew.
  std::array<Pass, 3> passes_;
  std::size_t prepared_ = 0; ///< Passes so far.
  std::size_t completed_ = 0;
  base::TimePoint last_end_;
};

} // namespace paceline::actors
