// The messages with which an actor asks the draft actor for the way to its lane.
#pragma once

#include "speculation/frontier.hpp"

#include <memory>

namespace paceline::messages {

/// Asks the draft for the way to its lane. The answer, Lent, holds as long as the draft actor
/// lives.
struct Borrow {};
struct Lent {
  std::shared_ptr<speculation::DraftInbox> inbox;
};

} // namespace paceline::messages
