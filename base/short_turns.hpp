// Threads that others wait for, on cores that others use.
#pragma once

namespace paceline::base {

/// Asks that the calling thread's turns on a core be short (limits::turn), and those of threads
/// that it starts: woken, it then goes before a neighbour whose turn is long, where it would
/// otherwise wait for the turn's end, milliseconds. Its share of the core is the same. Linux 6.12
/// and later listen; others go on as they would.
void take_short_turns();

} // namespace paceline::base
