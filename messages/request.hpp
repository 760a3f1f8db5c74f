// Engine facade, scheduler and supervisor: a request's way in and its tokens' way out.
#pragma once

#include "base/clock.hpp"
#include "base/event_sink.hpp"
#include "messages/sequence.hpp"
#include "paceline/engine.hpp"
#include "paceline/event.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::messages {

using base::EventSink;

/// Caller to facade: a checked request with all defaults filled in.
struct Submit {
  SequenceSpecRef spec;
  std::vector<TokenId> prompt;
  std::vector<std::string> stop;
  base::Duration deadline{}; ///< 0: none.
  std::shared_ptr<EventSink> sink;
};

/// Caller to facade.
struct Cancel {
  SequenceId request = 0;
};

/// Facade to scheduler: decode this. The log holds the prompt and, after a restart of the
/// scheduler, what was already delivered.
struct Admit {
  SequenceSpecRef spec;
  std::vector<TokenId> tokens;
};

/// Facade to scheduler: its request has ended (stop string, cancel, deadline).
struct Abandon {
  SequenceId sequence = 0;
};

/// Scheduler to facade: tokens of one target step, in order. `first` is the index of the first
/// output token, so that a repeat is recognised.
struct Committed {
  SequenceId sequence = 0;
  int first = 0;
  std::vector<TokenId> tokens;
  std::vector<TokenSource> sources;
  std::vector<TokenLogprob> logprobs;
  std::vector<TokenLogprob> prompt_logprobs; ///< Once, complete, before the first token.
  bool end_of_text = false;
  bool length = false; ///< The token budget or the context is used up.
  int cached_tokens = 0;
  std::optional<base::TimePoint> started; ///< When it first had pages.
  SpeculationStats speculation;           ///< So far.
};

/// Several sequences' commits of one step: one message.
struct Commits {
  std::vector<Committed> sequences;
};

/// Scheduler to facade: this sequence cannot go on.
struct Failed {
  SequenceId sequence = 0;
  Error error;
};

/// Engine to facade: refuse new requests, and answer when the last one has ended. After `limit`
/// what is left is cancelled.
struct Drain {
  base::Duration limit{};
};
struct Drained {};

} // namespace paceline::messages
