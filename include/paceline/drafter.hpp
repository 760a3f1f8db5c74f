// The interface of a drafter of your own: anything that can guess how a text goes on.
#pragma once

#include "paceline/request.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace paceline {

/// The part of a request's sampling that sets temperature and truncation, with defaults filled in.
struct DrafterSampling {
  float temperature = 0;
  int top_k = 0;
  float top_p = 1;
  float min_p = 0;
  std::uint64_t seed = 0;
};

/// What a drafter is told about a sequence.
struct DraftedSequence {
  std::uint64_t id = 0; ///< Never used for another sequence.
  std::string scope{};  ///< Request::draft_scope
  DrafterSampling sampling{};
};

/// A token, and how likely a drafter thinks it is, in any unit.
struct TokenWeight {
  TokenId token = 0;
  float weight = 0;
};

/// A sequence for which tokens are wanted; a drafter proposes them to it one after the other. The
/// engine makes all draws, so that the rules of docs/theory.md hold whatever a drafter does and
/// however long that takes. An impossible proposal (an id that does not exist, a weight that is not
/// a number, more tokens than were asked for) is refused with std::invalid_argument, and counts as
/// a failure. A token that Request::constraint forbids cannot be proposed: it is taken out of
/// weights, and if nothing is left, this proposal and those after it count for nothing.
class DraftTask {
public:
  virtual ~DraftTask() = default;

  virtual std::uint64_t sequence() const = 0;
  /// Prompt, output, and behind them the tokens drafted so far, this call's proposals included.
  /// Valid until the next proposal for this sequence.
  virtual std::span<const TokenId> context() const = 0;
  /// Number of leading tokens of `context` that are committed: they never change.
  virtual std::size_t committed() const = 0;
  /// How many more tokens may be proposed.
  virtual int wanted() const = 0;
  /// The chance from which on a token is worth proposing, if a model drafts what is not proposed
  /// here. 0: nobody else drafts.
  virtual double chance_wanted() const { return 0; }

  /// Proposes a token without a distribution: a point mass.
  virtual void propose(TokenId token) = 0;
  /// Draws a token from these weights and proposes it; takes the heaviest if decoding is greedy.
  /// Each token stands there once; each weight is finite and not negative, and some are positive.
  virtual TokenId draw(std::span<const TokenWeight> weights) = 0;
  /// Does the same from a row of log-probabilities, which need not be normalised. log_q:
  /// [vocabulary of the target]
  virtual TokenId draw(std::span<const float> log_q) = 0;
};

/// Proposes tokens for sequences. Threads: called from one thread at a time, never from the
/// caller's. A call may block: the engine goes on in plain decoding when it is late. A call that
/// throws has proposed what it had proposed by then; a drafter that keeps failing is disabled.
class Drafter {
public:
  virtual ~Drafter() = default;

  /// A sequence begins, or goes on after a pause. tokens: those committed so far.
  virtual void begin(const DraftedSequence& /*sequence*/, std::span<const TokenId> /*tokens*/) {}
  /// A sequence has ended, or is paused. tokens: all that were committed.
  virtual void end(std::uint64_t /*sequence*/, std::span<const TokenId> /*tokens*/) {}
  /// Tokens are wanted for each of these sequences, all of which have begun and not ended. Fewer
  /// than wanted, or none, is an answer, too. What is proposed for a position, or that nothing is,
  /// must depend only on the tokens before it.
  virtual void propose(std::span<DraftTask* const> tasks) = 0;
};

} // namespace paceline
