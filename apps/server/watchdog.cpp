#include "apps/server/watchdog.hpp"

namespace paceline::apps::serve {
namespace {

constexpr std::chrono::milliseconds pause{50};

} // namespace

Watchdog::Watchdog(const boost::asio::any_io_executor& executor, std::function<void()> bark)
    : timer_(executor), bark_(std::move(bark)) {}

void Watchdog::set(std::chrono::milliseconds limit) {
  barked_ = false;
  deadline_ = Clock::now() + limit;
  if (deadline_ < armed_)
    arm(deadline_);
}

void Watchdog::clear() {
  barked_ = false;
  deadline_ = Clock::time_point::max();
}

void Watchdog::stop() {
  clear();
  bark_ = nullptr;
  timer_.cancel();
}

void Watchdog::arm(Clock::time_point at) {
  armed_ = at;
  timer_.expires_at(at);
  timer_.async_wait([dog = weak_from_this()](boost::system::error_code cancelled) {
    if (const auto here = dog.lock(); here && !cancelled)
      here->wake();
  });
}

void Watchdog::wake() {
  armed_ = Clock::time_point::max();
  if (!bark_ || deadline_ == Clock::time_point::max())
    return;
  if (Clock::now() < deadline_)
    return arm(deadline_);
  barked_ = true;
  arm(Clock::now() + pause);
  bark_();
}

} // namespace paceline::apps::serve
