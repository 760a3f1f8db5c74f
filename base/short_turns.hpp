// Short turns for threads that others wait for, on cores that others use.
#pragma once

namespace paceline::base {

/// Asks that the calling thread, and threads that it starts, have short turns on a core
/// (limits::turn). When such a thread is woken it goes before a neighbour whose turn is long;
/// otherwise it would wait for that turn's end, milliseconds. Its share of the core stays the same.
/// Linux 6.12 and later obey; older ones ignore it.
void take_short_turns();

} // namespace paceline::base
