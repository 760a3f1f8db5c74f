// The messages by which a request comes to the scheduler, and its tokens leave.
#pragma once

#include "base/clock.hpp"
#include "paceline/error.hpp"
#include "paceline/event.hpp"
#include "scheduling/names.hpp"

#include <optional>
#include <vector>

namespace paceline::scheduling {

/// Asks the scheduler to decode a sequence. `tokens` holds the prompt and, after a restart of the
/// scheduler, what was already delivered.
struct Admit {
  SequenceSpecRef spec;
  std::vector<TokenId> tokens;
};

/// The request has ended (stop string, cancel, deadline).
struct Abandon {
  SequenceId sequence = 0;
};

/// The tokens of one target step, in order. `first` is the index of the first output token, so that
/// a repeat is recognised.
struct Committed {
  SequenceId sequence = 0;
  int first = 0;
  std::vector<TokenId> tokens;
  std::vector<TokenSource> sources;
  std::vector<TokenLogprob> logprobs;
  std::vector<TokenLogprob> prompt_logprobs; ///< Sent once, complete, before the first token.
  bool end_of_text = false;
  bool length = false; ///< The token budget or the context is used up.
  int cached_tokens = 0;
  std::optional<base::TimePoint> started; ///< Time at which the sequence first had pages.
  SpeculationStats speculation;           ///< Figures so far.
};

/// Several sequences' commits of one step.
struct Commits {
  std::vector<Committed> sequences;
};

/// This sequence cannot go on.
struct Failed {
  SequenceId sequence = 0;
  Error error;
};

} // namespace paceline::scheduling
