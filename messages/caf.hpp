// The parts in which CAF's versions differ, under names of ours, so that a later CAF is a change
// here alone.
#pragma once

#include "base/log.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace paceline::messages {

#if CAF_VERSION >= 1800
#error "Paceline is built and tested with CAF 0.17; newer versions need this header extended."
#endif

namespace detail {
/// True for CAF's own types and for those that are declared as a value or as local.
template <class Message>
inline constexpr bool declared = std::is_void_v<Message> || caf::has_type_id<Message>::value;

template <class Signature>
struct replies;
template <class... R, class... A>
struct replies<caf::result<R...>(A...)> {
  static_assert((declared<R> && ...) && (declared<A> && ...),
                "a message of this interface stands in neither list of messages/values.hpp");
  using type = typename caf::replies_to<A...>::template with<R...>;
};
} // namespace detail

/// A Writer writes a value and a Reader reads one; Inspected is the result, which is empty or the
/// error.
using Writer = caf::serializer;
using Reader = caf::deserializer;
using Inspected = caf::error;

/// Writes or reads fields in their order, up to the first that fails.
template <class Inspector, class... Fields>
Inspected inspect_all(Inspector& inspector, Fields&&... fields) {
  return inspector(fields...);
}

/// A typed actor, given by its handlers: Interface<caf::result<Answer>(Question), ...>.
template <class... Signatures>
using Interface = caf::typed_actor<typename detail::replies<Signatures>::type...>;

/// Sends without expecting an answer. `self` is the actor that calls it.
template <class Self, class To, class Message>
void tell(Self* self, const To& to, Message&& message) {
  self->send(to, std::forward<Message>(message));
}

/// Sends without expecting an answer. Code outside actors may call it, on any thread.
template <class To, class Message>
void tell(const To& to, Message&& message) {
  caf::anon_send(to, std::forward<Message>(message));
}

/// Sends a message that overtakes ordinary ones in the receiver's mailbox.
template <class Self, class To, class Message>
void tell_urgently(Self* self, const To& to, Message&& message) {
  self->template send<caf::message_priority::high>(to, std::forward<Message>(message));
}

template <class Self, class To, class Message>
void tell_after(Self* self, std::chrono::nanoseconds delay, const To& to, Message&& message) {
  self->delayed_send(to, delay, std::forward<Message>(message));
}

/// Ends an actor whose work has failed, as an exception of its own would. Threads: any.
inline void fail(const caf::actor_addr& actor) {
  caf::anon_send_exit(actor, caf::exit_reason::unhandled_exception);
}

/// Sends a request; `.then(on_answer, on_error)` follows. on_error is called after `limit`.
template <class Self, class To, class Message>
auto ask(Self* self, const To& to, std::chrono::nanoseconds limit, Message&& message) {
  return self->request(to, limit, std::forward<Message>(message));
}

/// The configuration of an actor system of the engine's or a node's.
struct SystemConfig : caf::actor_system_config {
  base::Log log; ///< Gets a line for each actor that dies of an exception.
};

namespace detail {
// CAF 0.17 builds an aggregate state as State(self) under C++20 rules; this holder is none.
template <class State>
struct Holder {
  Holder() = default;
  static constexpr const char* name = State::name;
  std::unique_ptr<State> state;
};

/// Writes to the log the error that an actor died of; CAF itself would write it to standard output.
inline caf::error died(const caf::actor_system& system, const char* name,
                       const std::exception_ptr& why) {
  std::string what = std::string("the ") + name + " died";
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& e) {
    what += std::string(": ") + e.what();
  } catch (...) { // Nothing more is known of it.
  }
  const auto* config = dynamic_cast<const SystemConfig*>(&system.config());
  (config ? config->log : base::Log()).write(LogLevel::error, what);
  return caf::exit_reason::unhandled_exception;
}
} // namespace detail

/// Spawns an actor from a state class: State(Handle::pointer self, args...), `make_behavior()`,
/// `static constexpr const char* name` and `using Handle = Interface<...>`.
template <class State, caf::spawn_options Options = caf::no_spawn_options, class Host,
          class... Args>
typename State::Handle spawn(Host& host, Args&&... args) {
  using Self = typename State::Handle::template stateful_pointer<detail::Holder<State>>;
  auto body = [](Self self, std::decay_t<Args>... values) {
    self->set_exception_handler(
        [self](std::exception_ptr& why) { return detail::died(self->system(), State::name, why); });
    self->state.state = std::make_unique<State>(self, std::move(values)...);
    return self->state.state->make_behavior();
  };
  return host.template spawn<Options>(body, std::forward<Args>(args)...);
}

} // namespace paceline::messages

// Declares, at global scope, how a struct is written and read. One source file defines it, so that
// the files that send the struct need not compile it.
#define PACELINE_DECLARE_INSPECT(space, Type)                                                      \
  namespace space {                                                                                \
  paceline::messages::Inspected inspect(paceline::messages::Writer& to, space::Type& value);       \
  paceline::messages::Inspected inspect(paceline::messages::Reader& from, space::Type& value);     \
  }

// Declares a message that stays in this process.
#define PACELINE_DECLARE_LOCAL(space, Type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(space::Type)

// Declares, between the other two macros, a message that may leave this process. CAF knows it by
// name and number.
#define PACELINE_BEGIN_VALUES CAF_BEGIN_TYPE_ID_BLOCK(paceline, caf::first_custom_type_id)
#define PACELINE_DECLARE_VALUE(space, Type) CAF_ADD_TYPE_ID(paceline, (space::Type))
#define PACELINE_END_VALUES CAF_END_TYPE_ID_BLOCK(paceline)
