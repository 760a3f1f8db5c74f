// What a forked child sees of what its parent had.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace paceline::testing {

/// What `look` says of itself in a forked child: a number below 100. The child is ended if it
/// hangs.
template <class Look>
int in_child(Look look) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(look());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

} // namespace paceline::testing
