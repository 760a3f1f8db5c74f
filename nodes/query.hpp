// A question of an engine to a node before anything is drafted, from a thread that waits for the
// answer.
#pragma once

#include "actors/system/runtime.hpp"
#include "messages/interfaces.hpp"
#include "nodes/limits.hpp"
#include "nodes/network.hpp"
#include "nodes/node_connection.hpp"

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
  void set(Result<Answer>&& answer) {
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
      : self_(self), name_(std::move(name)), result_(std::move(result)),
        node_(self, limits::connect_timeout, nullptr,
              [this](const std::string& why) { lost(why); }) {}
  ~NodeQuery() { result_->set(without_answer("the query ended")); }

  void begin(SocketDescriptor socket, const NodeTls& tls, const std::string& host) {
    node_.use(open_link(self_->system(), socket, tls, host, self_), name_);
    self_->delayed_send(self_, node_.pause(), messages::Wake{});
  }
  template <class Value>
  void say(Value value) {
    node_.say(std::move(value));
  }
  void reach(double done) { result_->reach(done); }
  void end(Result<Answer> with) {
    result_->set(std::move(with));
    self_->quit(caf::exit_reason::user_shutdown);
  }
  void lost(const std::string& why) { end(without_answer(why)); }
  void hear() { node_.hear(); }
  /// Asks whether the node is alive: a node that is busy, loading a model for example, answers
  /// pings all the same.
  void look_after() {
    if (!node_.answers())
      return;
    node_.ask();
    self_->delayed_send(self_, node_.pause(), messages::Wake{});
  }

private:
  tl::unexpected<Error> without_answer(const std::string& why) const {
    return fail(ErrorCode::unavailable, name_ + ": " + why,
                "see that paceline node runs there, and that certificates are given at both ends "
                "or at none");
  }

  caf::event_based_actor* self_;
  std::string name_;
  std::shared_ptr<QueryResult<Answer>> result_;
  NodeConnection node_;
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
        [state](const messages::Connected& lost) { state->lost(lost.why.message); },
        [state](const messages::Pong&) { state->hear(); },
        [state](const messages::Wake&) { state->look_after(); }});
  };
  actors::apart_from_caller([&] { system.spawn(asker, caf::unit); });
  return result->wait(progress);
}

} // namespace paceline::nodes
