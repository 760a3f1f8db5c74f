// A question of an engine to a node before anything is drafted, from a thread that waits for the
// answer.
#pragma once

#include "actors/system/runtime.hpp"
#include "messages/interfaces.hpp"
#include "nodes/limits.hpp"
#include "nodes/network.hpp"

#include <caf/message_handler.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace paceline::nodes {

/// Tells the waiting thread how far a query is. Threads: any.
using Progress = std::function<void(double)>;

template <class Answer>
class QueryResult {
public:
  void reach(double done) {
    const std::lock_guard lock(mutex_);
    done_ = done;
    news_.notify_all();
  }
  /// Sets the result; only the first call counts.
  void set(Result<Answer> answer) {
    const std::lock_guard lock(mutex_);
    if (!answer_)
      answer_ = std::move(answer);
    news_.notify_all();
  }
  /// Waits for the result. progress: called on this thread with how far the query is; may be empty.
  Result<Answer> wait(const Progress& progress) {
    std::unique_lock lock(mutex_);
    for (double told = 0; !answer_;) {
      if (told == done_) {
        news_.wait(lock);
        continue;
      }
      told = done_;
      lock.unlock();
      if (progress)
        progress(told);
      lock.lock();
    }
    return std::move(*answer_);
  }

private:
  std::mutex mutex_;
  std::condition_variable news_;
  double done_ = 0;
  std::optional<Result<Answer>> answer_;
};

/// One query while it is under way. Threads: its actor's.
template <class Answer>
class NodeQuery {
public:
  NodeQuery(caf::event_based_actor* self, std::string name,
            std::shared_ptr<QueryResult<Answer>> result)
      : self_(self), name_(std::move(name)), result_(std::move(result)) {}

  void begin(SocketDescriptor socket, const NodeTls& tls, const std::string& host) {
    link_ = open_link(self_->system(), socket, tls, host, self_);
    self_->set_default_handler(caf::drop); // A value that nobody expects ends the link, too.
    self_->set_exit_handler([this](const caf::exit_msg&) {
      closed_ = true;
      self_->send(self_, messages::Wake{}); // Earlier values come first.
    });
    hear();
    self_->delayed_send(self_, pause, messages::Wake{});
  }
  template <class Value>
  void say(Value value) {
    self_->send(link_, std::move(value));
  }
  void reach(double done) { result_->reach(done); }
  void end(Result<Answer> with) {
    result_->set(std::move(with));
    self_->quit(caf::exit_reason::user_shutdown);
  }
  void hear() { heard_ = std::chrono::steady_clock::now(); }
  /// Asks whether the node is alive: a node that is busy, loading a model for example, answers
  /// pings all the same.
  void look_after() {
    if (closed_)
      return end(silent(" closed the connection"));
    if (std::chrono::steady_clock::now() - heard_ > limits::connect_timeout)
      return end(silent(" does not answer"));
    say(messages::Ping{});
    self_->delayed_send(self_, pause, messages::Wake{});
  }

private:
  static constexpr auto pause = limits::connect_timeout / 4;

  tl::unexpected<Error> silent(const char* what) const {
    return fail(ErrorCode::unavailable, name_ + what,
                "see that paceline node runs there, and that certificates are given at both ends "
                "or at none");
  }

  caf::event_based_actor* self_;
  std::string name_;
  std::shared_ptr<QueryResult<Answer>> result_;
  caf::actor link_;
  bool closed_ = false;
  std::chrono::steady_clock::time_point heard_;
};

/// Connects, and returns the result of the query. begin: says the first words, and returns the
/// handler of the node's; a refusal that it does not take ends the query. To be called from a
/// thread that may wait.
template <class Answer, class Begin>
Result<Answer> query(caf::actor_system& system, const NodeAddress& address, const NodeTls& tls,
                     const Begin& begin, const Progress& progress = {}) {
  const auto socket = dial(address.endpoint, tls, limits::connect_timeout);
  if (!socket)
    return tl::unexpected(socket.error());
  const auto result = std::make_shared<QueryResult<Answer>>();
  // The argument is there because CAF 0.17 dereferences a null tuple of arguments for a function
  // without any.
  const auto asker = [&, result](caf::event_based_actor* self, caf::unit_t) -> caf::behavior {
    const auto state = std::make_shared<NodeQuery<Answer>>(self, address.endpoint.text(), result);
    state->begin(*socket, tls, address.endpoint.host);
    caf::message_handler answers = begin(state);
    return answers.or_else(caf::message_handler{
        [state](const messages::Refused& refused) { state->end(tl::unexpected(refused.why)); },
        [state](const messages::Pong&) { state->hear(); },
        [state](const messages::Wake&) { state->look_after(); }});
  };
  actors::apart_from_caller([&] { system.spawn(asker, caf::unit); });
  return result->wait(progress);
}

} // namespace paceline::nodes
