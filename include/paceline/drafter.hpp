// A drafter of your own: anything that can guess how a text goes on.
#pragma once

#include "paceline/request.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace paceline {

/// The temperature-and-truncation part of a request's sampling, resolved.
struct DrafterSampling {
  float temperature = 0;
  int top_k = 0;
  float top_p = 1;
  float min_p = 0;
  std::uint64_t seed = 0;
};

/// A sequence as a drafter gets to know it.
struct DraftedSequence {
  std::uint64_t id = 0; ///< Never used for another one.
  std::string scope{};  ///< Request::draft_scope
  DrafterSampling sampling{};
};

/// A token, and how likely a drafter holds it to be, in any unit.
struct TokenWeight {
  TokenId token = 0;
  float weight = 0;
};

/// A sequence for which tokens are wanted, and where they are proposed, one after the other. All
/// draws are the engine's, so that the rules of docs/theory.md hold whatever a drafter does and
/// however long that takes it. What cannot be (an id that is none, a weight that is no number, more
/// than was asked for) is refused with std::invalid_argument, and counts as a failure. A token that
/// Request::constraint forbids is none to propose: weights have it taken out, and where nothing is
/// left, this and what is proposed after it counts for nothing.
class DraftTask {
public:
  virtual ~DraftTask() = default;

  virtual std::uint64_t sequence() const = 0;
  /// Prompt, output, and behind them what has been drafted, this call's proposals included. Valid
  /// until the next proposal for this sequence.
  virtual std::span<const TokenId> context() const = 0;
  /// Leading tokens of `context` that are committed: they never change.
  virtual std::size_t committed() const = 0;
  /// How many more tokens may be proposed.
  virtual int wanted() const = 0;
  /// Where a model drafts what is not proposed: the chance from which on a token is worth proposing
  /// in its place. 0: nobody else drafts.
  virtual double chance_wanted() const { return 0; }

  /// Proposes a token without a distribution: a point mass.
  virtual void propose(TokenId token) = 0;
  /// Draws a token from these, each of which stands there once and has a weight that is finite and
  /// not negative (some of them positive), and proposes it; the heaviest where decoding is greedy.
  virtual TokenId draw(std::span<const TokenWeight> weights) = 0;
  /// The same from a row of log-probabilities, which need not be normalised. log_q: [vocabulary of
  /// the target]
  virtual TokenId draw(std::span<const float> log_q) = 0;
};

/// Threads: called from one thread at a time, never from the caller's. It may block: the engine
/// goes on in plain decoding when it is late. A call that throws has proposed what it had proposed
/// by then; a drafter that keeps failing is disabled.
class Drafter {
public:
  virtual ~Drafter() = default;

  /// A sequence begins, or goes on where it had been put aside. tokens: those committed so far.
  virtual void begin(const DraftedSequence& /*sequence*/, std::span<const TokenId> /*tokens*/) {}
  /// It has ended, or is put aside. tokens: all that were committed.
  virtual void end(std::uint64_t /*sequence*/, std::span<const TokenId> /*tokens*/) {}
  /// Tokens are wanted for each of these, which begin and end have named. Fewer than wanted, or
  /// none, is an answer, too. What is proposed for a position, or that nothing is, must depend on
  /// what stands before it alone.
  virtual void propose(std::span<DraftTask* const> tasks) = 0;
};

} // namespace paceline
