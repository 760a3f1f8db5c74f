#include "base/short_turns.hpp"

#include "base/limits.hpp"

#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

namespace paceline::base {
namespace {

/// The argument of sched_setattr(2); the C library of Debian 12 does not declare it.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0; // The usual policy, SCHED_OTHER.
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0; // Length of a turn under the usual policy.
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

} // namespace

void take_short_turns() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, attributes.size, 0) != 0 || attributes.policy != 0)
    return;
  attributes.runtime = std::uint64_t(limits::turn.count());
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

} // namespace paceline::base
