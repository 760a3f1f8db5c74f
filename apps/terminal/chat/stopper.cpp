#include "apps/terminal/chat/chat_session.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace paceline::apps {

Stopper::Stopper(Interrupt& interrupt) : scope_(interrupt.on_each([this] { act(); })) {
  if (pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0)
    pipe_[0] = pipe_[1] = -1; // Ctrl-C then leaves the line being typed as it is.
}

Stopper::~Stopper() {
  for (const int end : pipe_)
    ::close(end);
}

void Stopper::answering(Stream* stream) {
  const std::lock_guard lock(mutex_);
  stream_ = stream;
  if (stream)
    stopped_ = false;
}

bool Stopper::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void Stopper::act() {
  const std::lock_guard lock(mutex_);
  if (stream_) {
    stopped_ = true;
    stream_->cancel();
    return;
  }
  (void)!::write(pipe_[1], "", 1);
}

} // namespace paceline::apps
