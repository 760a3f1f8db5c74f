// The process that an object belongs to.
#pragma once

#include <unistd.h>

namespace paceline::base {

/// Knows whether this process is the one that made the object. A forked child has its parent's
/// memory and none of the threads: waiting for them, or taking a lock that one of them holds, would
/// never end. Threads: any.
class OwnProcess {
public:
  bool here() const { return getpid() == process_; }

private:
  pid_t process_ = getpid();
};

} // namespace paceline::base
