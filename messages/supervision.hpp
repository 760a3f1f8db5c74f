// The messages that an actor sends to itself and to the actors it watches.
#pragma once

namespace paceline::messages {

/// An actor's own reminder.
struct Wake {};
/// "Are you alive?"; answered at once even in the middle of a forward pass.
struct Ping {};
struct Pong {};

} // namespace paceline::messages
