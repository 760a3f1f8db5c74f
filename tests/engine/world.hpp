// An engine without its public face: the same parts and actors on a virtual clock whose seed
// decides what happens next, so that a test may look at each of them, or kill it.
#pragma once

#include "actors/opening.hpp"
#include "actors/request_check.hpp"
#include "actors/request_sink.hpp"
#include "actors/system/timekeeper.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/recorder.hpp"
#include "tests/support/requests.hpp"
#include "tests/support/simulation.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace paceline::testing {

class EngineWorld {
public:
  explicit EngineWorld(const EngineOptions& options, std::uint64_t seed = 0,
                       actors::VirtualTimeOptions order = any_order)
      : time_(seed, order), clock_(std::make_shared<actors::ActorTimekeeper>(time_.system())) {
    auto opened = actors::open_context(options, clock_, nullptr);
    if (!opened)
      FAIL(opened.error().text());
    opened_ = std::move(*opened);
    supervisor_ = messages::spawn<actors::Supervisor>(time_.system(), opened_.parts);
  }
  ~EngineWorld() {
    close();
    clock_->stop();
    opened_.closer->close();
  }
  EngineWorld(const EngineWorld&) = delete;
  EngineWorld& operator=(const EngineWorld&) = delete;

  /// Ends all actors.
  void close() {
    caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
    time_.run(steps_max);
  }

  std::shared_ptr<Recorder> submit(const Request& request) {
    auto checked = actors::check_request(request, opened_, 17);
    if (!checked)
      FAIL(checked.error().text());
    auto spec = std::make_shared<speculation::SequenceSpec>(*checked->spec);
    spec->id = ++requests_;
    checked->spec = std::move(spec);
    auto recorder = std::make_shared<Recorder>();
    checked->sink = std::make_shared<actors::RequestSink>(recorder);
    if (!facade_)
      facade_ = handles().facade;
    messages::tell(facade_, std::move(*checked));
    return recorder;
  }
  void cancel(std::uint64_t id) { messages::tell(handles().facade, messages::Cancel{id}); }

  /// Where no timer is due sooner: so that what is held up until then does not wait for the next.
  void stop_clock_after(base::Duration delay) {
    clock_->after(delay, [] {});
  }

  bool step() { return time_.step(); }
  /// Until silence; how many steps that took.
  std::size_t run() { return time_.run(steps_max); }
  /// False: silence came first.
  bool run_until(const std::function<bool()>& reached) {
    return time_.run_until(reached, steps_max);
  }
  bool run_until_ended(const std::vector<std::shared_ptr<Recorder>>& requests) {
    return run_until([&] {
      return std::ranges::all_of(requests, [](const auto& request) { return request->ended(); });
    });
  }
  base::TimePoint now() const { return time_.now(); }
  /// What becomes of each message (actors/system/virtual_time.hpp).
  void decide_fates(std::function<actors::Fate(const actors::Arrival&)> decide) {
    time_.decide_fates(std::move(decide));
  }

  /// The handles of the actors that are there now.
  messages::ActorHandles handles() {
    return *ask<messages::ActorHandles>(supervisor_, messages::Ping{});
  }
  template <class Handle>
  void kill(const Handle& actor) {
    caf::anon_send_exit(actor, caf::exit_reason::kill);
  }
  template <class Answer, class Handle, class Question>
  std::optional<Answer> ask(const Handle& to, Question question) {
    std::optional<Answer> answer;
    bool done = false;
    // With an argument: CAF 0.17 dereferences a null tuple of arguments where there is none.
    time_.system().spawn(
        [&, question](caf::event_based_actor* self, const Handle& asked) {
          self->request(asked, caf::infinite, question)
              .then(
                  [&](const Answer& a) {
                    answer = a;
                    done = true;
                  },
                  [&](const caf::error&) { done = true; });
        },
        to);
    time_.run_until([&] { return done; }, steps_max);
    return answer;
  }

  const actors::EngineParts& parts() const { return opened_.parts; }
  actors::EngineContext& opened() { return opened_; }
  Metrics metrics() {
    if (const auto cache = handles().kv_cache)
      ask<messages::Pong>(cache, messages::Ping{}); // counts its pages anew
    return opened_.parts.telemetry->snapshot();
  }

private:
  static constexpr std::size_t steps_max = 2'000'000;

  actors::VirtualSystem time_;
  std::shared_ptr<actors::ActorTimekeeper> clock_;
  actors::EngineContext opened_;
  messages::SupervisorActor supervisor_;
  messages::FacadeActor facade_; ///< There is only one, also once it is dead.
  std::uint64_t requests_ = 0;
};

/// A draft out of a target that lies in parts has weights of its own, and changes no token.
inline void check_draft_of_parts(EngineOptions options) {
  const Request request = repeatable("import os\n", 16);
  options.speculation = SpeculationMode::off;
  const auto expected = [&] {
    Engine engine = open_engine(options);
    return ask(engine, request).tokens;
  }();
  options.drafters = {"self:mxfp6"};
  options.speculation = SpeculationMode::sync;
  Engine engine = open_engine(options);
  CHECK(ask(engine, request).tokens == expected);
  CHECK(engine.draft_model().value().shared_bytes == 0);
}

} // namespace paceline::testing
