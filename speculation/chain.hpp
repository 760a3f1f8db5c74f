// A chain holds what the draft wrote after one frontier. docs/architecture.md lists it with all
// other state that actors share.
#pragma once

#include "sampling/guess.hpp"
#include "speculation/limits.hpp"
#include "speculation/sequence.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::speculation {

/// A gate opens, and calls back once, when as many have arrived as it was made for. The scheduler
/// waits at one gate for all windows of a batch, so that it gets one message. Threads: any.
class Gate {
public:
  Gate(int arrivals, std::function<void()> opened) : left_(arrivals), opened_(std::move(opened)) {}
  void arrive() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      opened_();
  }

private:
  std::atomic<int> left_;
  std::function<void()> opened_;
};

/// The recent lane time of the draft's passes; 0 means not known yet.
struct DraftPace {
  std::chrono::nanoseconds step{};      ///< Time of a pass that drafts without forks.
  std::chrono::nanoseconds fork_step{}; ///< Time of a pass that advances forks.
  double fork_rows = 0;                 ///< Forks that such a pass advances.

  /// Takes the time of a pass into the means. fork_rows: the forks that it advanced.
  void observe(std::chrono::nanoseconds took, int fork_rows = 0);
};

/// The writer of a chain's token.
enum class Writer : std::uint8_t {
  drafter, ///< The model, or whoever drafts alone.
  lookup,  ///< A look-up beside the model.
  form,    ///< The form of the answer, which says how it goes on.
};

/// A memory row for one position's q. It returns to its pool with the last reference.
using QRow = std::shared_ptr<float>;

/// A chain holds the tokens drafted after one frontier, by absolute position. A miss abandons the
/// chain and begins another one (an object of its own, so that a late writer harms nobody); a hit
/// goes on with the chain, or with the one of its forks that came true.
///
/// A fork is the chain that follows (this chain's tokens before `position`, then `token`), which is
/// another outcome of a verification than this chain's own. Its prefix is fixed before its first
/// token is drawn, so whether it is right depends neither on who asks nor on when.
///
/// Threads: the draft's lane alone calls bind, put, lengthen, end_at, release_q and spent; whoever
/// decides what becomes of the chain calls begin, extend, close and the functions of forks; anybody
/// reads. A position is *bound* before its token is drawn; readers that saw it bound wait until it
/// is drawn, or until the chain has ended before it. This keeps `rejection` exact under any timing:
/// whether a position is judged never depends on its own token (docs/theory.md).
class Chain {
public:
  /// An outcome of a verification, with the chain that was drafted for it.
  struct Fork {
    int position = 0;
    TokenId token = 0;
    std::shared_ptr<Chain> chain;
  };
  explicit Chain(SequenceId sequence) : sequence_(sequence) {}

  SequenceId sequence() const { return sequence_; }

  /// Sets the chain up, once, before it is handed to the draft. start: position of its first token.
  /// window_end, limit: how far the window and the whole lookahead reach (positions, one past the
  /// last).
  void begin(int start, int window_end, int limit);
  /// Does the same for fork number `fork` (from 1 on) of a chain that stood at `frontier`.
  void begin_fork(int start, int end, int frontier, int fork);
  int start() const { return start_; }
  /// Identifies the noise of this chain's draws (DrawKey) by where the chain began and as which
  /// fork. No two chains of a sequence share it, since no two frontiers have the same length.
  std::uint32_t attempt() const { return attempt_; }

  // The draft's lane calls the functions from here to `spent`.
  /// Returns the next position to draw, or -1 when there is none now (limit reached, closed or
  /// ended). under_way: positions before it that are being drawn.
  int next(int under_way = 0) const;
  /// Returns one past the last position that may be drawn as things are.
  int reach() const { return std::min(limit(), end_.load(std::memory_order_relaxed)); }
  /// Announces that positions up to `end` (one past the last) are drawn next, before any of them
  /// is.
  void bind(int end);
  /// Stores a drawn token. guesses: what is likely to stand there if the token is rejected, the
  /// likeliest first.
  void put(int position, TokenId token, QRow q, const sampling::Guesses& guesses = {},
           Writer writer = Writer::drafter);
  /// Makes room for one more token of the window, and so of all, since one of them costs nothing to
  /// draft. Decided from the past, never from the token. May be lost where a verdict comes
  /// meanwhile.
  void lengthen();
  /// Ends the chain: nothing will be drawn from `position` on (the context is full, or drafting
  /// failed).
  void end_at(int position);
  /// Ends the chain where it stands, so that nobody waits for more.
  void end_here() { end_at(drawn()); }
  /// Gives back the rows of q of the positions before this one, which have been judged.
  void release_q(int position);
  /// Adds lane time spent on tokens of this chain or its forks, and publishes how long passes take
  /// now.
  void spent(std::chrono::nanoseconds time, const DraftPace& pace);

  // The functions from here on are not for the draft's lane alone.
  /// Returns one past the last position that is bound (and not cut off by the chain's end).
  int bound() const;
  /// Returns one past the last position whose token is there.
  int drawn() const { return drawn_.load(std::memory_order_acquire); }
  /// Says whether every position before `position` is either drawn or will never be.
  bool settled(int position) const {
    return drawn_.load(std::memory_order_seq_cst) >=
           std::min(position, end_.load(std::memory_order_seq_cst));
  }
  TokenId token(int position) const { return slot(position).token; }
  const float* q(int position) const { return slot(position).q.get(); }
  const sampling::Guesses& guesses(int position) const { return slot(position).guesses; }
  Writer writer(int position) const { return slot(position).writer; }
  std::chrono::nanoseconds busy() const {
    return std::chrono::nanoseconds(busy_.load(std::memory_order_relaxed));
  }
  DraftPace pace() const;

  /// Lets the draft go on up to these positions (after a hit).
  void extend(int window_end, int limit);
  int window_end() const { return window_end_.load(std::memory_order_acquire); }
  int limit() const { return limit_.load(std::memory_order_acquire); }
  /// Marks the chain as stale: the draft stops before its next token.
  void close() { closed_.store(true, std::memory_order_release); }
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  /// The draft adds a fork before the fork's first token is bound; the target's lane looks one up
  /// when it has a verdict.
  void add_fork(int position, TokenId token, std::shared_ptr<Chain> fork);
  std::shared_ptr<Chain> fork(int position, TokenId token) const;
  /// Returns the forks that are there, in the order in which they were added.
  std::vector<Fork> forks() const;
  /// Sets a callback that the draft's thread runs when it has added forks, before it draws their
  /// first tokens. It is set before the chain is handed to the draft or goes on as another chain's
  /// fork.
  void on_forks(std::function<void()> added);
  /// Runs that callback; the draft calls this when it has added the forks of a pass.
  void tell_forks() const;
  /// Closes and forgets forks at positions before this one, which have not come true, except
  /// `kept`. Returns how many tokens were drawn for them.
  std::uint64_t drop_forks(int position, const Chain* kept = nullptr);

  /// Makes forks give way: nothing more is written for any fork of this chain, and what they have
  /// is judged as before. The scheduler calls it. Returns false when there are no forks left to
  /// end.
  bool end_forks();
  bool forks_ended() const { return forks_ended_.load(std::memory_order_acquire); }

  /// Calls gate->arrive() once when the chain is settled up to `position`, either at once or from
  /// the draft's thread. A later call replaces an earlier one.
  void notify_at(int position, std::shared_ptr<Gate> gate);

private:
  struct Slot {
    TokenId token = 0;
    QRow q;
    sampling::Guesses guesses;
    Writer writer = Writer::drafter;
  };
  const Slot& slot(int position) const { return slots_[std::size_t(position) % slots_.size()]; }
  void announce();

  const SequenceId sequence_;
  int start_ = 0;
  std::uint32_t attempt_ = 0;
  int released_ = 0; ///< Positions before it have no q; only the draft's lane uses it.
  std::atomic<int> window_end_{0};
  std::atomic<int> limit_{0};
  std::atomic<int> bound_{0};
  std::atomic<int> drawn_{0};
  std::atomic<int> end_{nobody};
  std::atomic<bool> closed_{false};
  std::atomic<bool> forks_ended_{false};
  std::atomic<std::int64_t> busy_{0}; ///< Nanoseconds, like step_ and fork_step_.
  std::atomic<std::int64_t> step_{0};
  std::atomic<std::int64_t> fork_step_{0};
  std::atomic<double> fork_rows_{0};
  std::array<Slot, std::size_t(limits::chain_positions)> slots_;

  static constexpr int nobody = 1 << 30;
  std::atomic<int> notify_position_{nobody};
  std::mutex gate_mutex_;
  std::shared_ptr<Gate> gate_;

  mutable std::mutex forks_mutex_;
  std::vector<Fork> forks_;
  std::function<void()> forks_added_; ///< Empty when nobody wants to know.
};
using ChainRef = std::shared_ptr<Chain>;

} // namespace paceline::speculation
