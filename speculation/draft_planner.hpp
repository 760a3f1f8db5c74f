// Decides what the draft's lane does next: which sequences, which of their tokens, which forks. It
// is plain logic: it knows tokens, positions and page numbers, and computes nothing.
#pragma once

#include "gpu/kv_pool.hpp"
#include "speculation/drafted_sequences.hpp"
#include "speculation/drafted_text.hpp"
#include "speculation/forks.hpp"
#include "speculation/form_guesses.hpp"
#include "speculation/frontier.hpp"
#include "text/vocabulary_map.hpp"

#include <limits>
#include <memory>
#include <vector>

namespace paceline::speculation {

/// A sequence as the lane of a draft model knows it: what is in the draft's pages, and the forks
/// that are being written.
struct DraftSequence {
  Frontier at;
  std::vector<TokenId> fed; ///< Tokens in the draft's pages, by position.
  /// One past the last slot of each token in `fed`, for a draft with a vocabulary of its own.
  std::vector<int> ends;
  int agreed = 0; ///< Leading tokens of `fed` that are known to be committed.
  /// Leading tokens of `fed` that a head on the target read with the target's features. Tokens that
  /// it read with its own features are read once more when the target's are there.
  int settled = 0;
  ForkSet forks;
  /// Read by a look-up that shares the lane, and by the answer's form; empty where neither drafts.
  DraftedText text;
  FormGuesses form;

  /// Returns whether all that the draft has read lies in pages, and depends on tokens alone: others
  /// may go on from it.
  bool in_pages() const { return !at.features.pages && !at.pages->state; }
};

/// The part of a pass that one sequence, or one of its forks, has: the tokens that are fed, and the
/// position that is drawn after them, or the positions, if the draft writes blocks.
struct DraftRows {
  DraftSequence* sequence = nullptr;
  Fork* fork = nullptr;        ///< Null for the sequence's own chain.
  int start = 0;               ///< Position of the first token fed.
  std::vector<TokenId> tokens; ///< Tokens to feed; a placeholder where the token is pending.
  int draws = -1;              ///< Position to draw; -1: the part only catches up.
  int drawn = 0;               ///< How many are drawn, from there on.
  /// What a draft with a vocabulary of its own reads for the tokens, and how many for each of them.
  std::vector<TokenId> readings;
  std::vector<int> counts;
  int slot = 0; ///< Slot of the first token; `start` unless the vocabulary is the draft's own.
  /// Which part of the pass before is still drawing the token to feed; -1: no token is pending.
  int follows = -1;

  bool pending() const { return follows >= 0; }
  /// Returns the position behind the tokens.
  int end() const { return start + int(tokens.size()); }
  /// Returns the tokens as the draft reads them.
  const std::vector<TokenId>& read() const { return counts.empty() ? tokens : readings; }
  Chain& chain() const { return fork ? *fork->chain : *sequence->at.chain; }
  const std::vector<std::uint32_t>& pages() const {
    return fork ? fork->pages : sequence->at.pages->ids;
  }
  TokenId token_at(int position) const;
};

/// A pass takes every sequence one token further, or a block of tokens, as far as its chain
/// reaches.
struct DraftPass {
  std::vector<DraftRows> parts;
  int fork_rows = 0;       ///< Parts that belong to forks.
  bool hurries = false;    ///< It drafts for a window that somebody waits for, or will soon.
  bool leaves_out = false; ///< There is more to do when no pass hurries any more.
};

struct DraftLimits {
  int context = 0;   ///< Positions that the draft can take.
  int fork_rows = 0; ///< Most parts of a pass that belong to forks, over all sequences.
  /// Positions behind the last committed token that a pass can draw, each of which knows nothing of
  /// the others (models::Model::block_tokens); 0: it draws the one behind what it has read.
  int block = 0;
  int drawn = std::numeric_limits<int>::max(); ///< Most positions that a pass draws.
};

/// Plans the passes of the draft's lane. A window that somebody waits for, or will soon, goes
/// before sequences that have much to read first, and before forks. Pointers in a pass are good
/// until the next call of `take`. Threads: the draft lane's alone.
///
/// A draft may have a vocabulary of its own. Everything is still counted in the target's tokens,
/// except slots of the draft's pages and rows of a pass: each token has as many of these as the
/// draft reads for it. Such a draft has no forks, and shares what is in its pages with nobody.
///
/// A draft that is a head on the target reads a token when the target's features of the position
/// before are there, and the tokens that it drafted itself with its own features. The last row of a
/// page then depends on a token behind the page, so its pages are not shared either. It has no
/// forks, since nobody copies the features that they would go on from.
///
/// A head that writes blocks reads committed tokens only. Its pass draws as many positions as the
/// chain has room for, within the block: one, where each token decides what may come behind it. It
/// draws no further before the next verdict brings features: nobody waits for that, since windows
/// are not longer than blocks. A block takes slots up to its last position.
///
/// A recurrent draft has a state for each sequence beside its pages, which holds committed tokens
/// only, and what it has read of one chain. So it has no forks either, and shares nothing.
class DraftPlanner {
public:
  /// pool: forks take its pages that no sequence has. map: null where draft and target share a
  /// vocabulary.
  DraftPlanner(DraftLimits limits, std::shared_ptr<gpu::KvPool> pool,
               std::shared_ptr<const text::VocabularyMap> map = nullptr)
      : limits_(limits), pool_(std::move(pool)), map_(std::move(map)) {}

  /// Newer frontiers replace what is known; sequences whose residency is over are forgotten.
  /// Returns true when sequences that want a look-up have come or gone.
  bool take(std::vector<Frontier> news);
  /// Returns the sequences that the lane knows, for a look-up that has turns there.
  DraftedSequences<DraftSequence>& sequences() { return sequences_; }
  /// Returns the next pass; it has no parts when there is nothing to do until news come.
  DraftPass plan();
  /// Returns what `plan` would give once the pass before, all of whose parts draw, has completed.
  /// The result has no parts where that depends on what `before` draws.
  DraftPass plan_behind(const DraftPass& before) const;

  /// Notes that the pass that feeds these rows begins.
  static void begins(const DraftRows& rows);
  /// Notes that these rows have been fed.
  static void fed(DraftRows& rows);
  /// Ends all chains and forks where they stand, so that nobody waits for what was under way.
  void abandon();

private:
  /// What a sequence wants next: it feeds the tokens of positions [start, end), and then draws the
  /// token at `draws` (-1: none, it only reads).
  struct Reach {
    int start = 0;
    int end = 0;
    int draws = -1;
    int drawn = 0;    ///< Positions to draw.
    int rows = 0;     ///< Rows that feeding them takes.
    bool far() const; ///< Whether it is too much for a pass that draws: it then catches up first.
  };
  void advance(DraftSequence& s, Frontier frontier) const;
  int context(const DraftSequence& s) const;
  int slot(const DraftSequence& s, int position) const;
  int count(const DraftSequence& s, int position) const;
  int end_within(const DraftSequence& s, int context) const;
  bool shares(const DraftSequence& s) const { return !map_ && s.in_pages(); }
  int read_for_good(const DraftSequence& s) const;
  /// What a pass may still read of prompts, and draw.
  struct Budget {
    int rows;
    int drawn;
  };
  int next_to_draw(const DraftSequence& s, int context) const;
  int drawn_from(const DraftSequence& s, int draws, int context) const;
  Reach reach_of(const DraftSequence& s) const;
  void add_rows(DraftPass& pass, DraftSequence& s, const Reach& reach, Budget& budget) const;
  void add_token(DraftRows& rows, int position) const;
  static bool may_fork(const DraftSequence& s);
  static bool writes_forks(const DraftSequence& s);
  void add_forks(DraftPass& pass, DraftSequence& s);

  DraftLimits limits_;
  std::shared_ptr<gpu::KvPool> pool_;
  std::shared_ptr<const text::VocabularyMap> map_;
  DraftedSequences<DraftSequence> sequences_;
};

} // namespace paceline::speculation
