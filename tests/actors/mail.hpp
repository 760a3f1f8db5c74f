// An actor's neighbours in its tests: each keeps what it is told, and the test takes it out,
// message by message, in order. A message that a test does not expect there fails it.
#pragma once

#include "messages/interfaces.hpp"
#include "tests/support/simulation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <any>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>

namespace paceline::testing {

/// What one neighbour was told, and how it answers questions (unless told: a default answer).
class Mail {
public:
  explicit Mail(Simulation& simulation) : simulation_(simulation) {}

  /// The next message, which must be of this type; time goes on until there is one.
  template <class Message>
  Message take() {
    simulation_.run_until([&] { return !messages_.empty(); });
    REQUIRE_MESSAGE(!messages_.empty(), "nothing came");
    const std::string came = messages_.front().type().name();
    const auto* message = std::any_cast<Message>(&messages_.front());
    REQUIRE_MESSAGE(message, "another message came first: ", came);
    Message taken = *message;
    messages_.pop_front();
    return taken;
  }
  /// The first message of this type that has come, if any; those before it are dropped.
  template <class Message>
  std::optional<Message> find() {
    const auto at = std::find_if(messages_.begin(), messages_.end(), [](const std::any& message) {
      return message.type() == typeid(Message);
    });
    if (at == messages_.end())
      return std::nullopt;
    messages_.erase(messages_.begin(), at);
    return take<Message>();
  }
  bool empty() const { return messages_.empty(); }

  template <class Question, class Answer>
  void when(std::function<Answer(const Question&)> answer) {
    answers_[typeid(Question)] = std::move(answer);
  }

  // The neighbour's side.
  template <class Message>
  void put(const Message& message) {
    messages_.emplace_back(message);
  }
  template <class Answer, class Question>
  Answer answer(const Question& question) const {
    const auto at = answers_.find(typeid(Question));
    if (at == answers_.end())
      return {};
    return std::any_cast<const std::function<Answer(const Question&)>&>(at->second)(question);
  }

private:
  Simulation& simulation_;
  std::deque<std::any> messages_;
  std::map<std::type_index, std::any> answers_;
};

namespace detail {

template <class In, class Out>
struct MailHandler {
  static auto make(const std::shared_ptr<Mail>& mail) {
    return [mail](const In& message) -> Out {
      mail->put(message);
      return mail->template answer<Out>(message);
    };
  }
};
template <class In>
struct MailHandler<In, void> {
  static auto make(const std::shared_ptr<Mail>& mail) {
    return [mail](const In& message) { mail->put(message); };
  }
};

template <class Actor>
struct MockOf;
template <class... In, class... Out>
struct MockOf<
    caf::typed_actor<caf::typed_mpi<caf::detail::type_list<In>, caf::output_tuple<Out>>...>> {
  using Handle =
      caf::typed_actor<caf::typed_mpi<caf::detail::type_list<In>, caf::output_tuple<Out>>...>;
  static constexpr const char* name = "mock";

  MockOf(typename Handle::pointer, std::shared_ptr<Mail> mail) : mail_(std::move(mail)) {}
  typename Handle::behavior_type make_behavior() { return {MailHandler<In, Out>::make(mail_)...}; }

private:
  std::shared_ptr<Mail> mail_;
};

} // namespace detail

/// A neighbour of any interface.
template <class Actor>
struct Mock {
  explicit Mock(Simulation& simulation)
      : mail(std::make_shared<Mail>(simulation)),
        actor(simulation.spawn<detail::MockOf<Actor>>(mail)) {}

  template <class Message>
  Message take() {
    return mail->take<Message>();
  }

  std::shared_ptr<Mail> mail;
  Actor actor;
};

} // namespace paceline::testing
