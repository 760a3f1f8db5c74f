// What an actor tells itself, and asks those it watches.
#pragma once

namespace paceline::messages {

/// An actor's own reminder.
struct Wake {};
/// "Are you alive?"; answered at once even in the middle of a forward pass.
struct Ping {};
struct Pong {};

} // namespace paceline::messages
