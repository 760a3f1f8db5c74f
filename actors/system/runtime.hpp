// The actor system an engine runs in: real threads, or one thread and a virtual clock.
#pragma once

#include "actors/system/timekeeper.hpp"
#include "actors/system/virtual_time.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

namespace paceline::actors {

/// Runs `work` on a thread of its own. CAF 0.17 leaves a reference to a system's logger in every
/// thread that made the system or an actor, and a system does not go before all threads have
/// dropped it: if `work` ran on the caller's thread, another thread could never close the engine,
/// and a caller with an actor system of its own would find its logger replaced.
template <class Work>
void apart_from_caller(const Work& work) {
  std::thread(work).join();
}

class Runtime {
public:
  using Extend = std::function<void(caf::actor_system_config&)>;
  /// virtual_seed: none for real time. extend: adds to the system's configuration, such as sockets
  /// and a thread for them; empty: nothing is added. Real time only. log: gets the errors that
  /// actors die of.
  explicit Runtime(std::optional<std::uint64_t> virtual_seed, const Extend& extend = {},
                   base::Log log = {});
  ~Runtime();
  /// Stops the clock's callbacks and waits until all actors, which must have been told to go, are
  /// gone.
  void await_actors();

  caf::actor_system& system() { return virtual_ ? virtual_->system() : *real_; }
  std::shared_ptr<ActorTimekeeper> time() { return time_; }
  bool is_virtual() const { return virtual_ != nullptr; }

  /// Steps through virtual time until `reached` (false: silence came first). In real time does
  /// nothing.
  bool advance_until(const std::function<bool()>& reached);
  /// Does the same up to a point of time.
  bool advance_until(const std::function<bool()>& reached, base::TimePoint until);
  /// Asks an actor and waits at most `limit` for the answer.
  template <class Answer, class Actor, class Question>
  std::optional<Answer> ask(const Actor& to, Question question, std::chrono::nanoseconds limit);

private:
  messages::SystemConfig config_;
  std::unique_ptr<caf::actor_system> real_;
  std::unique_ptr<VirtualSystem> virtual_;
  std::shared_ptr<ActorTimekeeper> time_;
};

template <class Answer, class Actor, class Question>
std::optional<Answer> Runtime::ask(const Actor& to, Question question,
                                   std::chrono::nanoseconds limit) {
  std::optional<Answer> answer;
  if (!is_virtual()) {
    apart_from_caller([&] {
      caf::scoped_actor asker{system()};
      asker->request(to, limit, std::move(question))
          .receive([&](Answer& a) { answer = std::move(a); }, [](const caf::error&) {});
    });
    return answer;
  }
  bool done = false;
  // The argument is there because CAF 0.17 dereferences a null tuple of arguments for a function
  // without any.
  system().spawn(
      [&, question](caf::event_based_actor* asker, const Actor& asked) {
        asker->request(asked, limit, question)
            .then(
                [&](Answer& a) {
                  answer = std::move(a);
                  done = true;
                },
                [&](const caf::error&) { done = true; });
      },
      to);
  advance_until([&] { return done; });
  return answer;
}

} // namespace paceline::actors
