// The engine facade actor: guards the requests.
#pragma once

#include "base/telemetry.hpp"
#include "messages/interfaces.hpp"
#include "sampling/stop.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::actors {

struct FacadeParts {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<base::Telemetry> telemetry;
  int draft_context = 0; ///< Tokens that the draft model can read; 0: there is none.
};

/// A token is committed when it stands in the log kept here; a new scheduler is rebuilt from it.
/// Every request ends exactly once, at the latest when this actor does.
class Facade {
public:
  using Handle = messages::FacadeActor;
  static constexpr const char* name = "facade";

  Facade(Handle::pointer self, FacadeParts parts);
  ~Facade();
  Handle::behavior_type make_behavior();

private:
  struct Record {
    Record(const text::Tokenizer& tokenizer, bool skip_special) : text(tokenizer, !skip_special) {}
    speculation::SequenceSpecRef spec;
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
    std::uint64_t failures_before = 0; ///< Of a Drafter.
    SpeculationStats speculation;
    int cached_tokens = 0;

    int output() const { return int(tokens.size()) - spec->prompt_tokens; }
  };
  using Records = std::map<speculation::SequenceId, Record>;

  void submit(const messages::Submit& request);
  void take(const scheduling::Committed& news);
  /// Appends one token; the stop string it completed, if any. ends: it is the end of the text.
  std::optional<std::string> append(Record& record, TokenId token, bool ends, Delta& delta);
  void finish(speculation::SequenceId id, FinishReason reason, std::optional<Error> error = {},
              std::string stop_match = {}, Delta last = {});
  Finished summary(const Record& record, FinishReason reason) const;
  void drain(base::Duration limit);
  void wake_at(base::TimePoint when);
  void check_deadlines();
  void cancel_all();
  base::TimePoint now() const;

  Handle::pointer self_;
  FacadeParts parts_;
  messages::SchedulerActor scheduler_;
  std::uint64_t handles_version_ = 0;
  Records records_;
  bool draining_ = false;
  std::optional<base::TimePoint> drain_deadline_;
  std::optional<base::TimePoint> alarm_; ///< The next that is under way.
  std::vector<caf::typed_response_promise<messages::Drained>> drained_;
};

} // namespace paceline::actors
