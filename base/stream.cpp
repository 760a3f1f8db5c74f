#include "base/stream.hpp"

#include "base/limits.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace paceline {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>&& more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void join(Delta& first, Delta&& second) {
  append(first.tokens, std::move(second.tokens));
  append(first.sources, std::move(second.sources));
  append(first.logprobs, std::move(second.logprobs));
  first.text += second.text;
}

} // namespace

Stream::Impl::Impl(std::uint64_t id, std::function<void()> cancel,
                   std::shared_ptr<base::Callbacks> callbacks, Advance advance)
    : id_(id), cancel_(std::move(cancel)), callbacks_(std::move(callbacks)),
      advance_(std::move(advance)) {}

Stream::Impl::~Impl() = default;

void Stream::Impl::deliver(Event event) {
  std::unique_lock lock(mutex_);
  if (ended_)
    return;
  ended_ = std::holds_alternative<Finished>(event);
  Delta* last = events_.empty() ? nullptr : std::get_if<Delta>(&events_.back());
  if (auto* more = std::get_if<Delta>(&event); more && last)
    join(*last, std::move(*more));
  else
    events_.push_back(std::move(event));
  woken_ = true;
  schedule();
  lock.unlock();
  news_.notify_all();
}

std::optional<Event> Stream::Impl::pop() {
  if (events_.empty())
    return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

std::optional<Event> Stream::Impl::next(Time time) {
  if (!process_.here())
    return std::nullopt;
  const auto is_readable = [this] { return readable(); };
  if (advance_)
    advance_(
        [this] {
          const std::lock_guard lock(mutex_);
          return readable();
        },
        time);
  std::unique_lock lock(mutex_);
  if (advance_) // nothing came: the time is over, or the engine is gone
    return pop();
  if (time)
    news_.wait_for(lock, *time, is_readable);
  else
    news_.wait(lock, is_readable);
  return pop();
}

std::optional<Event> Stream::Impl::try_next() {
  if (!process_.here())
    return std::nullopt;
  const std::lock_guard lock(mutex_);
  return pop();
}

void Stream::Impl::cancel() {
  if (!process_.here() || cancelled_.exchange(true))
    return;
  try {
    cancel_();
  } catch (...) { // the request was not cancelled, and the caller may try again
    cancelled_ = false;
    throw;
  }
}

// --- the caller's functions

void Stream::Impl::on_ready(std::function<void()> wake) {
  if (!process_.here())
    return;
  callbacks_->start();
  const std::lock_guard lock(mutex_); // unlocked before the old function is destroyed
  wake_.swap(wake);
  woken_ = readable();
  try {
    schedule();
  } catch (...) {
    wake_.swap(wake);
    throw;
  }
}

void Stream::Impl::on_end(std::function<void()> told) {
  if (!process_.here())
    return;
  callbacks_->start();
  const std::lock_guard lock(mutex_);
  told_.swap(told);
  try {
    schedule();
  } catch (...) {
    told_.swap(told);
    throw;
  }
}

void Stream::Impl::schedule() {
  if (scheduled_ || !((woken_ && wake_) || (ended_ && told_)))
    return;
  callbacks_->post([stream = weak_from_this()] {
    if (const auto self = stream.lock())
      self->run_callbacks();
  });
  scheduled_ = true;
}

/// Returns the function that is to be called next.
std::function<void()> Stream::Impl::due() {
  if (woken_ && wake_) {
    woken_ = false;
    return wake_;
  }
  return ended_ ? std::exchange(told_, nullptr) : nullptr;
}

void Stream::Impl::run_callbacks() {
  std::unique_lock lock(mutex_);
  calling_ = std::this_thread::get_id();
  while (auto function = due()) {
    lock.unlock();
    callbacks_->call(function);
    function = nullptr; // the function may hold this stream
    lock.lock();
  }
  calling_ = {};
  scheduled_ = false;
  quiet_.notify_all();
}

void Stream::Impl::close() {
  if (!process_.here())
    return;
  std::function<void()> wake;
  std::function<void()> told;
  bool open = false;
  {
    const std::lock_guard lock(mutex_);
    open = !std::exchange(ended_, true);
    wake_.swap(wake);
    told_.swap(told);
  }
  try {
    if (open)
      cancel();
  } catch (const std::bad_alloc&) { // a client's stream: its request goes on
  }
  std::unique_lock lock(mutex_);
  quiet_.wait(lock, [this] {
    return calling_ == std::thread::id() || calling_ == std::this_thread::get_id();
  });
}

Stream::Stream(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  if (impl_)
    impl_->close();
  impl_ = std::move(other.impl_);
  return *this;
}
Stream::~Stream() {
  if (impl_)
    impl_->close();
}

std::optional<Event> Stream::next() {
  return impl_->next(std::nullopt);
}
std::optional<Event> Stream::next_for(std::chrono::nanoseconds time) {
  return impl_->next(std::clamp(time, std::chrono::nanoseconds(0), base::limits::wait_max));
}
std::optional<Event> Stream::try_next() {
  return impl_->try_next();
}
void Stream::cancel() {
  impl_->cancel();
}
void Stream::on_ready(std::function<void()> wake) {
  impl_->on_ready(std::move(wake));
}
void Stream::on_end(std::function<void()> told) {
  impl_->on_end(std::move(told));
}
std::uint64_t Stream::id() const {
  return impl_->id();
}

} // namespace paceline
