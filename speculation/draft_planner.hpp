// What the draft's lane does next: which sequences, which of their tokens, which forks. Plain
// logic: it knows tokens, positions and page numbers, and computes nothing.
#pragma once

#include "gpu/kv_pool.hpp"
#include "speculation/forks.hpp"
#include "speculation/frontier.hpp"
#include "text/vocabulary_map.hpp"

#include <map>
#include <memory>
#include <vector>

namespace paceline::speculation {

/// A sequence as the draft knows it.
struct DraftSequence {
  Frontier at;
  std::vector<TokenId> fed; ///< Tokens in the draft's pages, by position.
  /// Of a draft with a vocabulary of its own: one past the slot of fed[i]'s last token.
  std::vector<int> ends;
  int agreed = 0; ///< Of these, leading ones known to be committed.
  /// Of a head on the target: leading ones that it read with the target's features. What it read
  /// with its own is read once more when the target's are there.
  int settled = 0;
  ForkSet forks;
};

/// One sequence's, or one of its forks', part of a pass: tokens that are fed, and the position that
/// is drawn after them.
struct DraftRows {
  DraftSequence* sequence = nullptr;
  Fork* fork = nullptr;        ///< Null: the sequence's own chain.
  int start = 0;               ///< Position of the first token fed.
  std::vector<TokenId> tokens; ///< Fed; a place holder where the token is pending.
  int draws = -1;              ///< -1: nothing, it only catches up.
  /// What the draft reads where its vocabulary is its own, and how many of it for each token.
  std::vector<TokenId> readings;
  std::vector<int> counts;
  int slot = 0; ///< Of the first, in the draft's pages: `start`, but for such a draft.
  /// The token to feed is pending: the pass before is still drawing it, as this one of its parts.
  int follows = -1;

  bool pending() const { return follows >= 0; }
  /// As the draft has them.
  const std::vector<TokenId>& read() const { return counts.empty() ? tokens : readings; }
  Chain& chain() const { return fork ? *fork->chain : *sequence->at.chain; }
  const std::vector<std::uint32_t>& pages() const {
    return fork ? fork->pages : sequence->at.pages->ids;
  }
  TokenId token_at(int position) const;
};

/// Every sequence one token further, as far as its chain reaches.
struct DraftPass {
  std::vector<DraftRows> parts;
  int fork_rows = 0;       ///< Parts that are forks'.
  bool hurries = false;    ///< For a window that somebody waits for, or will soon.
  bool leaves_out = false; ///< There is more to do when no pass hurries any more.
};

struct DraftLimits {
  int context = 0;   ///< Positions that the draft can take.
  int fork_rows = 0; ///< Most parts of a pass that are forks', over all sequences.
};

/// A window that somebody waits for, or will soon, goes before those that have much to read first,
/// and before forks. Pointers in a pass are good until the next call of `take`. Threads: the draft
/// lane's alone.
///
/// Where the draft has a vocabulary of its own everything is counted in the target's tokens all the
/// same, but for slots of its pages and rows of a pass: each token has as many as the draft reads
/// for it. There are no forks, and what is in its pages is shared with nobody.
///
/// A draft that is a head on the target reads a token when the target's features of the position
/// before are there, and what it drafted itself with its own. That a page's last row depends on a
/// token behind it keeps its pages from being shared, too, and it has no forks: nobody copies what
/// they would go on from.
class DraftPlanner {
public:
  /// pool: forks take pages of it that no sequence has. map: null where the vocabulary is one.
  DraftPlanner(DraftLimits limits, std::shared_ptr<gpu::KvPool> pool,
               std::shared_ptr<const text::VocabularyMap> map = nullptr)
      : limits_(limits), pool_(std::move(pool)), map_(std::move(map)) {}

  /// Newer frontiers replace what is known; sequences whose residency is over are forgotten.
  void take(std::vector<Frontier> news);
  /// The next pass; no parts: there is nothing to do until there are news.
  DraftPass plan();
  /// What `plan` would give once the pass before, all of whose parts draw, has completed; no parts
  /// where that depends on what it draws.
  DraftPass plan_behind(const DraftPass& before) const;

  /// The pass that feeds these rows begins.
  static void begins(const DraftRows& rows);
  /// They have been fed.
  static void fed(DraftRows& rows);
  /// What was under way is lost: nobody waits for what is left undone.
  void abandon();

private:
  /// What a sequence wants next: the tokens of positions [start, end) fed, and then the token at
  /// `draws` (-1: none, it only reads).
  struct Reach {
    int start = 0;
    int end = 0;
    int draws = -1;
    int rows = 0;     ///< That feeding them takes.
    bool far() const; ///< Too much for the pass that draws: it catches up first.
  };
  void take_one(Frontier frontier);
  int context(const DraftSequence& s) const;
  int slot(const DraftSequence& s, int position) const;
  int count(const DraftSequence& s, int position) const;
  int end_within(const DraftSequence& s, int context) const;
  bool shares(const DraftSequence& s) const { return !map_ && !s.at.features.pages; }
  int read_for_good(const DraftSequence& s) const;
  Reach reach_of(const DraftSequence& s) const;
  void add_rows(DraftPass& pass, DraftSequence& s, const Reach& reach, int& budget) const;
  void add_token(DraftRows& rows, int position) const;
  static bool writes_forks(const DraftSequence& s);
  void add_forks(DraftPass& pass);

  DraftLimits limits_;
  std::shared_ptr<gpu::KvPool> pool_;
  std::shared_ptr<const text::VocabularyMap> map_;
  std::map<SequenceId, DraftSequence> sequences_;
};

} // namespace paceline::speculation
