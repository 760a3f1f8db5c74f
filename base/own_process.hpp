// Which process something belongs to.
#pragma once

#include <unistd.h>

namespace paceline::base {

/// A forked child has the memory of what its parent opened and none of the threads: waiting for
/// them, or taking a lock that one of them holds, would never end. Threads: any.
class OwnProcess {
public:
  bool here() const { return getpid() == process_; }

private:
  pid_t process_ = getpid();
};

} // namespace paceline::base
