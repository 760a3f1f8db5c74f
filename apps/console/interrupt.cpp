#include "apps/console/interrupt.hpp"

#include "apps/console/exit_status.hpp"

#include <csignal>
#include <pthread.h>
#include <unistd.h>
#include <utility>

namespace paceline::apps {
namespace {

sigset_t interrupt_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

} // namespace

Interrupt::Interrupt() {
  const sigset_t set = interrupt_signal();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { await(); });
}

Interrupt::~Interrupt() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  pthread_kill(thread_.native_handle(), SIGINT); // This wakes sigwait.
  thread_.join();
}

Interrupt::Scope Interrupt::on_first(std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  action_ = std::move(action);
  each_ = false;
  return Scope(*this);
}

Interrupt::Scope Interrupt::on_each(std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  action_ = std::move(action);
  each_ = true;
  return Scope(*this);
}

Interrupt::Scope::~Scope() {
  const std::lock_guard lock(owner_->mutex_);
  owner_->action_ = nullptr;
}

bool Interrupt::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void Interrupt::await() {
  const sigset_t set = interrupt_signal();
  for (;;) {
    int signal = 0;
    sigwait(&set, &signal);
    const std::lock_guard lock(mutex_);
    if (closing_)
      return;
    handle();
  }
}

void Interrupt::handle() {
  if (seen_ || !action_)
    _exit(status_interrupted);
  seen_ = !each_;
  action_();
}

} // namespace paceline::apps
