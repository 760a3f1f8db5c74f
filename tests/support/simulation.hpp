// What every actor's tests run on: the real actors, one thread, a virtual clock, and a seed that
// decides what happens next.
#pragma once

#include "actors/system/virtual_time.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::testing {

/// Any actor may go next, and now and then a timer fires before messages that came earlier.
inline constexpr actors::VirtualTimeOptions any_order{.shuffle = true,
                                                      .early_timer_probability = 0.1};
/// Messages before timers, actors in turn: where a test needs exact times.
inline constexpr actors::VirtualTimeOptions exact_order{};

/// Handles that a test keeps must be declared behind it, so that they go first.
class Simulation {
public:
  static constexpr std::size_t steps_max = 100'000;

  explicit Simulation(std::uint64_t seed = 0, actors::VirtualTimeOptions options = any_order)
      : time_(seed, options) {}
  /// Ends all that was spawned here, whoever still refers to whom.
  ~Simulation() {
    for (const caf::actor& actor : spawned_)
      caf::anon_send_exit(actor, caf::exit_reason::kill);
  }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  caf::actor_system& system() { return time_.system(); }
  base::TimePoint now() const { return time_.now(); }
  bool step() { return time_.step(); }
  std::size_t run(std::size_t limit = steps_max) { return time_.run(limit); }
  bool run_until(const std::function<bool()>& reached, std::size_t limit = steps_max) {
    return time_.run_until(reached, limit);
  }

  /// What becomes of each message (actors/system/virtual_time.hpp).
  void decide_fates(std::function<actors::Fate(const actors::Arrival&)> decide) {
    time_.decide_fates(std::move(decide));
  }

  /// An actor from a state class, as messages::spawn.
  template <class State, class... Args>
  typename State::Handle spawn(Args&&... args) {
    const auto handle = messages::spawn<State>(time_.system(), std::forward<Args>(args)...);
    end_with_this(handle);
    return handle;
  }
  /// Ends an actor with this that others spawned, and would keep alive.
  template <class Handle>
  void end_with_this(const Handle& handle) {
    spawned_.push_back(caf::actor_cast<caf::actor>(handle));
  }
  /// Kills it as a fault would.
  template <class Handle>
  void kill(const Handle& handle) {
    caf::anon_send_exit(handle, caf::exit_reason::kill);
  }

  /// Tells it from outside; `run` delivers it.
  template <class Handle, class Message>
  void tell(const Handle& to, Message&& message) {
    messages::tell(to, std::forward<Message>(message));
  }

  /// Asks and runs until there is an answer. None (an error, silence, or `limit` steps) is an empty
  /// optional, never a test that hangs.
  template <class Answer, class Handle, class Question>
  std::optional<Answer> ask(const Handle& to, Question question, std::size_t limit = steps_max) {
    const auto reply = std::make_shared<Reply<Answer>>();
    system().spawn(probe<Answer, Handle, Question>, to, std::move(question), reply);
    run_until([&] { return reply->ended; }, limit);
    return std::move(reply->answer);
  }

private:
  template <class Answer>
  struct Reply {
    bool ended = false;
    std::optional<Answer> answer;
  };

  // Event-based: a blocking actor would wait for ever on the thread that has to run the others.
  template <class Answer, class Handle, class Question>
  static void probe(caf::event_based_actor* self, const Handle& to, const Question& question,
                    const std::shared_ptr<Reply<Answer>>& reply) {
    self->request(to, caf::infinite, question)
        .then(
            [reply](const Answer& answer) {
              reply->answer = answer;
              reply->ended = true;
            },
            [reply](const caf::error&) { reply->ended = true; });
  }

  actors::VirtualSystem time_;
  std::vector<caf::actor> spawned_;
};

} // namespace paceline::testing
