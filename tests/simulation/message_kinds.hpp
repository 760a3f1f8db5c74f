// The engine's messages by kind: what a fault plan may do to each.
#pragma once

#include "actors/system/virtual_time.hpp"
#include "messages/caf.hpp"

#include <span>

namespace paceline::testing {

struct MessageKind {
  const char* name;
  bool (*matches)(const caf::type_erased_tuple& content);
  /// It may be repeated, late, and overtaken by others of its sender: epochs, ids and indices say
  /// what is stale. The others rely on what the actor system promises: messages of one actor to
  /// another arrive once and in order, unless the receiver dies.
  bool in_any_order;
};
std::span<const MessageKind> message_kinds();
/// The first of them, without those that only stages on other machines have.
std::span<const MessageKind> local_message_kinds();

/// The kind's index, or -1.
int kind_of(const caf::type_erased_tuple& content);

/// Null: it is another message.
template <class Message>
const Message* as(const actors::Arrival& arrival) {
  return arrival.content.match_element<Message>(0) ? &arrival.content.get_as<Message>(0) : nullptr;
}

} // namespace paceline::testing
