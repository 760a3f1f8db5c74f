// A drafter of your own: anything that can guess how a text goes on.
#pragma once

#include "paceline/request.hpp"

#include <span>
#include <vector>

namespace paceline {

/// What a drafter proposes after a context.
struct Proposal {
  std::vector<TokenId> tokens;
  /// One row per token: the log-probabilities the token was drawn from, over the target's
  /// vocabulary. Empty: the drafter is deterministic (each row a point mass on its token).
  std::vector<std::vector<float>> log_q;
};

/// The temperature-and-truncation part of a request's sampling, resolved.
struct DrafterSampling {
  float temperature = 0;
  int top_k = 0;
  float top_p = 1;
  float min_p = 0;
  std::uint64_t seed = 0;
};

/// Threads: called from one thread at a time, never from the caller's. It may block; the engine
/// goes on in plain decoding when it is late. Exceptions count as "no proposal".
class Drafter {
public:
  virtual ~Drafter() = default;

  /// At most `count` tokens that may follow `context` (prompt and committed output).
  virtual Proposal propose(std::span<const TokenId> context, int count,
                           const DrafterSampling& sampling) = 0;
};

} // namespace paceline
