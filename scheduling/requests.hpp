// The open requests: the log of each one's committed tokens, and where it ends. Plain logic: facts
// in, actions out; no actor and no clock.
#pragma once

#include "base/event_sink.hpp"
#include "base/telemetry.hpp"
#include "sampling/stop.hpp"
#include "scheduling/actions.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace paceline::scheduling {

/// A checked request with all defaults filled in.
struct Submit {
  SequenceSpecRef spec;
  std::vector<TokenId> prompt;
  std::vector<std::string> stop;
  bool skip_special_tokens = true;
  std::shared_ptr<base::EventSink> sink;
};

/// The open requests. A token is committed when it stands in the log kept here; a new scheduler is
/// rebuilt from it. Events go to a request's sink from within the calls. Each call takes in one
/// fact at `now`, and returns what the scheduler is told, in order, and when to call `time_passed`.
/// Threads: one.
class Requests {
public:
  struct Config {
    std::shared_ptr<const text::Tokenizer> tokenizer;
    std::shared_ptr<base::Telemetry> telemetry;
    int draft_context = 0; ///< Tokens that the draft model can read; 0: there is none.
  };
  using Action = std::variant<Admit, Abandon, WakeAfter>;
  using Actions = std::vector<Action>;

  explicit Requests(Config config) : config_(std::move(config)) {}

  Actions submit(const Submit& request, base::TimePoint now);
  /// Cancels a request; harmless when late or repeated.
  Actions cancel(SequenceId id, base::TimePoint now);
  /// Takes newly committed tokens; repeats are dropped, and behind a gap the sequence begins again.
  Actions committed(const Commits& news, base::TimePoint now);
  Actions failed(const Failed& news, base::TimePoint now);
  /// Looks for requests whose deadline has passed, and for the end of `drain`.
  Actions time_passed(base::TimePoint now);
  /// Admits every open request again, with all its tokens so far.
  Actions all_again() const;

  /// Refuses new requests; what is left after `limit` is cancelled.
  Actions drain(base::Duration limit, base::TimePoint now);
  /// Says whether `drain` was asked for, and no request is left.
  bool drained() const { return draining_ && open_.empty(); }
  /// Ends whatever is open with an error, as nothing is committed any more. lost: who kept failing,
  /// and of what; empty: nobody did.
  void close(base::TimePoint now, const std::string& lost = {});

private:
  using Turn = TurnOf<Action>;
  struct Open {
    Open(const text::Tokenizer& tokenizer, bool skip_special) : text(tokenizer, !skip_special) {}
    SequenceSpecRef spec;
    std::shared_ptr<base::EventSink> sink;
    std::vector<TokenId> tokens; ///< Prompt, then the committed output.
    text::Detokenizer text;      ///< Has seen the prompt: the output goes on where it ends.
    sampling::StopMatcher stops;
    text::Utf8Stream utf8;
    base::TimePoint submitted;
    std::optional<base::TimePoint> started;
    std::optional<base::TimePoint> first_token;
    base::TimePoint last_token;
    std::optional<base::TimePoint> deadline;
    base::OverlapMeter::Sums lanes_before;
    std::uint64_t failures_before = 0; ///< Failures of a Drafter before it.
    SpeculationStats speculation;
    int cached_tokens = 0;

    int output() const { return int(tokens.size()) - spec->prompt_tokens; }
  };

  Open opened(const Submit& request, base::TimePoint now) const;
  void take(Turn& turn, const Committed& news);
  std::optional<std::string> append(Open& request, TokenId token, bool ends, Delta& delta);
  void finish(Turn& turn, SequenceId id, FinishReason reason, std::optional<Error> error = {},
              std::string stop_match = {}, Delta last = {});
  Finished summary(const Open& request, FinishReason reason, base::TimePoint now) const;
  void cancel_all(Turn& turn);
  void wake_at(Turn& turn, base::TimePoint when);

  Config config_;
  std::map<SequenceId, Open> open_;
  bool draining_ = false;
  std::optional<base::TimePoint> drain_deadline_;
  std::optional<base::TimePoint> alarm_; ///< The next alarm that is under way.
};

} // namespace paceline::scheduling
