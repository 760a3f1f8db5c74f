#include "base/stream.hpp"

#include <iterator>

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
                   std::function<bool(const std::function<bool()>&)> advance)
    : id_(id), cancel_(std::move(cancel)), advance_(std::move(advance)) {}

Stream::Impl::~Impl() = default;

void Stream::Impl::deliver(Event event) {
  std::function<void()> wake;
  std::function<void()> told;
  {
    const std::lock_guard lock(mutex_);
    if (ended_)
      return;
    ended_ = std::holds_alternative<Finished>(event);
    if (ended_)
      told = std::exchange(told_, nullptr);
    Delta* last = events_.empty() ? nullptr : std::get_if<Delta>(&events_.back());
    if (auto* more = std::get_if<Delta>(&event); more && last)
      join(*last, std::move(*more));
    else
      events_.push_back(std::move(event));
    wake = wake_;
  }
  news_.notify_all();
  if (wake)
    wake();
  if (told)
    told();
}

std::optional<Event> Stream::Impl::pop() {
  if (events_.empty())
    return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

std::optional<Event> Stream::Impl::next() {
  if (advance_)
    advance_([this] {
      const std::lock_guard lock(mutex_);
      return readable();
    });
  std::unique_lock lock(mutex_);
  if (advance_ && !readable())
    return std::nullopt; // silence: the engine is gone
  news_.wait(lock, [this] { return readable(); });
  return pop();
}

std::optional<Event> Stream::Impl::try_next() {
  const std::lock_guard lock(mutex_);
  return pop();
}

void Stream::Impl::on_ready(const std::function<void()>& wake) {
  bool now = false;
  {
    const std::lock_guard lock(mutex_);
    wake_ = wake;
    now = readable();
  }
  if (now && wake)
    wake();
}

void Stream::Impl::on_end(const std::function<void()>& told) {
  bool now = false;
  {
    const std::lock_guard lock(mutex_);
    now = ended_;
    told_ = now ? nullptr : told;
  }
  if (now && told)
    told();
}

void Stream::Impl::close() {
  bool open = false;
  {
    const std::lock_guard lock(mutex_);
    open = !std::exchange(ended_, true);
    wake_ = told_ = nullptr;
  }
  if (open)
    cancel_();
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
  return impl_->next();
}
std::optional<Event> Stream::try_next() {
  return impl_->try_next();
}
void Stream::cancel() {
  impl_->cancel();
}
void Stream::on_ready(const std::function<void()>& wake) {
  impl_->on_ready(wake);
}
void Stream::on_end(const std::function<void()>& told) {
  impl_->on_end(told);
}
std::uint64_t Stream::id() const {
  return impl_->id();
}

} // namespace paceline
