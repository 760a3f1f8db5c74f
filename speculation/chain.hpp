// A chain: what the draft wrote after one frontier. docs/architecture.md lists it with all other
// state that actors share.
#pragma once

#include "sampling/guess.hpp"
#include "speculation/limits.hpp"
#include "speculation/sequence.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::speculation {

/// Opens once everybody it was handed to has arrived; calls back once.
/// The scheduler waits at one gate for all windows of a batch, so that it gets one message.
/// Threads: any.
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

/// How long the draft takes of late: lane time; 0: not known yet.
struct DraftPace {
  std::chrono::nanoseconds step{};      ///< A pass that drafts.
  std::chrono::nanoseconds fork_step{}; ///< A pass that advances forks,
  double fork_rows = 0;                 ///< and how many of them.

  /// fork_rows: of the pass.
  void observe(std::chrono::nanoseconds took, int fork_rows = 0);
};

/// A memory row for one position's q; returned to its pool with the last reference.
using QRow = std::shared_ptr<float>;

/// Tokens drafted after one frontier, by absolute position. A miss abandons the chain and begins
/// another one (an object of its own, so that a late writer harms nobody); a hit goes on with it,
/// or with the fork of it that came true.
///
/// A fork is the chain that follows (this chain's tokens before `position`, then `token`): an
/// outcome of a verification other than this chain's own. Its prefix is fixed before its first
/// token is drawn, so it is right or wrong whoever asks, and whenever.
///
/// Threads: the draft's lane alone calls bind, put, end_at, release_q and spent; begin, extend,
/// close and forks are for who decides what becomes of it; anybody reads. A position is *bound*
/// before its token is drawn; readers that saw it bound wait until it is drawn, or until the chain
/// has ended before it. That is what keeps `rejection` exact under any timing: whether a position
/// is judged never depends on its own token (docs/theory.md).
class Chain {
public:
  /// An outcome of a verification, and what was drafted for it.
  struct Fork {
    int position = 0;
    TokenId token = 0;
    std::shared_ptr<Chain> chain;
  };
  explicit Chain(SequenceId sequence) : sequence_(sequence) {}

  SequenceId sequence() const { return sequence_; }

  /// Once, before the chain is handed to the draft: position of its first token, and how far the
  /// window and the whole lookahead reach (positions, one past the last).
  void begin(int start, int window_end, int limit);
  /// The same for fork number `fork` (from 1 on) of a chain that stood at `frontier`.
  void begin_fork(int start, int end, int frontier, int fork);
  int start() const { return start_; }
  /// Names the noise of this chain's draws (DrawKey): where it began, and as which fork. No two
  /// chains of a sequence share it, since no two frontiers have one length.
  std::uint32_t attempt() const { return attempt_; }

  // The draft's side.
  /// The next position to draw, or -1 when there is none now (limit reached, closed or ended).
  /// under_way: positions before it that are being drawn.
  int next(int under_way = 0) const;
  /// Positions up to `end` (one past) will be drawn next: before the first of them is.
  void bind(int end);
  /// guesses: what is likely to stand there if the token is rejected, the likeliest first.
  /// looked_up: a look-up beside the model wrote it.
  void put(int position, TokenId token, QRow q, const sampling::Guesses& guesses = {},
           bool looked_up = false);
  /// Nothing will be drawn from `position` on (the draft's context is full, or it failed).
  void end_at(int position);
  /// Positions before this one have been judged: their rows of q go back.
  void release_q(int position);
  /// Lane time spent on tokens of this chain, and what passes take now.
  void spent(std::chrono::nanoseconds time, const DraftPace& pace);

  // Everybody else's side.
  /// One past the last position that is bound (and not cut off by the chain's end).
  int bound() const;
  /// One past the last position whose token is there.
  int drawn() const { return drawn_.load(std::memory_order_acquire); }
  /// Every position before `position` is either drawn or will never be.
  bool settled(int position) const {
    return drawn_.load(std::memory_order_seq_cst) >=
           std::min(position, end_.load(std::memory_order_seq_cst));
  }
  TokenId token(int position) const { return slot(position).token; }
  const float* q(int position) const { return slot(position).q.get(); }
  const sampling::Guesses& guesses(int position) const { return slot(position).guesses; }
  bool looked_up(int position) const { return slot(position).looked_up; }
  std::chrono::nanoseconds busy() const {
    return std::chrono::nanoseconds(busy_.load(std::memory_order_relaxed));
  }
  DraftPace pace() const;

  /// Lets the draft go on to here (after a hit).
  void extend(int window_end, int limit);
  int window_end() const { return window_end_.load(std::memory_order_acquire); }
  int limit() const { return limit_.load(std::memory_order_acquire); }
  /// The chain is stale: the draft stops before its next token.
  void close() { closed_.store(true, std::memory_order_release); }
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  /// From the draft, before the fork's first token is bound; from the target's lane, with a
  /// verdict.
  void add_fork(int position, TokenId token, std::shared_ptr<Chain> fork);
  std::shared_ptr<Chain> fork(int position, TokenId token) const;
  /// Those that are there, in the order in which they were added.
  std::vector<Fork> forks() const;
  /// Calls back from the draft's thread when it has added forks, before it draws their first
  /// tokens. Set before the chain is handed to the draft or goes on as another one's fork.
  void on_forks(std::function<void()> added);
  /// From the draft, when it has added those of a pass.
  void tell_forks() const;
  /// Forks at positions before this one have not come true: they are closed and forgotten, but for
  /// `kept`. Returns how many tokens were drawn for them.
  std::uint64_t drop_forks(int position, const Chain* kept = nullptr);

  /// Forks give way: nothing more is written for any of this chain. What they have is judged as
  /// ever. From the scheduler. False: there are none that could.
  bool end_forks();
  bool forks_ended() const { return forks_ended_.load(std::memory_order_acquire); }

  /// Calls gate->arrive() once when the chain is settled up to `position`: now, or from the draft's
  /// thread. A later call replaces an earlier one.
  void notify_at(int position, std::shared_ptr<Gate> gate);

private:
  struct Slot {
    TokenId token = 0;
    QRow q;
    sampling::Guesses guesses;
    bool looked_up = false;
  };
  const Slot& slot(int position) const { return slots_[std::size_t(position) % slots_.size()]; }
  void announce();

  const SequenceId sequence_;
  int start_ = 0;
  std::uint32_t attempt_ = 0;
  int released_ = 0; ///< The draft lane's: positions before it have no q.
  std::atomic<int> window_end_{0};
  std::atomic<int> limit_{0};
  std::atomic<int> bound_{0};
  std::atomic<int> drawn_{0};
  std::atomic<int> end_{nobody};
  std::atomic<bool> closed_{false};
  std::atomic<bool> forks_ended_{false};
  std::atomic<std::int64_t> busy_{0}; ///< Nanoseconds, as those of the pace.
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
  std::function<void()> forks_added_; ///< Empty: nobody wants to know.
};
using ChainRef = std::shared_ptr<Chain>;

} // namespace paceline::speculation
