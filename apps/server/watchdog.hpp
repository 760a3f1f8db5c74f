// Time limits of one connection, which are set again and again and hardly ever reached.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>

namespace paceline::apps::serve {

/// Calls `bark` when time is up, and again every moment until told otherwise, so that a task that
/// is between two operations at that time is caught in the next one. Setting a later time costs no
/// timer.
class Watchdog : public std::enable_shared_from_this<Watchdog> {
public:
  Watchdog(const boost::asio::any_io_executor& executor, std::function<void()> bark);

  void set(std::chrono::milliseconds limit);
  void clear();
  /// Stops for good and forgets `bark`.
  void stop();
  /// Whether time was up since the last `set`.
  bool barked() const { return barked_; }

private:
  using Clock = std::chrono::steady_clock;
  void arm(Clock::time_point at);
  void wake();

  boost::asio::steady_timer timer_;
  std::function<void()> bark_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point armed_ = Clock::time_point::max();
  bool barked_ = false;
};

} // namespace paceline::apps::serve
