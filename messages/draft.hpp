// To the draft actor: the way to its lane.
#pragma once

#include "speculation/frontier.hpp"

#include <memory>

namespace paceline::messages {

/// Answered with the way to the draft's lane, for as long as the actor lives.
struct Borrow {};
struct Lent {
  std::shared_ptr<speculation::DraftInbox> inbox;
};

} // namespace paceline::messages
