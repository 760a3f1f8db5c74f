// A message that is made before it is known whether it will be sent.
#pragma once

#include "messages/caf.hpp"

#include <atomic>
#include <utility>

namespace paceline::messages {

/// A message whose sending takes no memory, so cannot fail: it serves where nothing may be thrown.
/// Threads: any.
class Prepared {
public:
  template <class Message>
  explicit Prepared(Message message)
      : mail_(caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(message))
                  .release()) {}
  ~Prepared() { caf::mailbox_element_ptr(mail_.load()); }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  /// Sends the message the first time; afterwards does nothing.
  template <class To>
  void tell(const To& to) noexcept {
    if (caf::mailbox_element_ptr mail{mail_.exchange(nullptr)})
      caf::actor_cast<caf::abstract_actor*>(to)->enqueue(std::move(mail), nullptr);
  }

private:
  std::atomic<caf::mailbox_element*> mail_;
};

} // namespace paceline::messages
