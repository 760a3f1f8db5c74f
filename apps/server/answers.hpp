// The answers of one request as they come, whichever has something first.
#pragma once

#include "paceline/asio.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::apps::serve {

/// Holds back at most one event of each stream; what comes meanwhile the streams join to one.
/// Destroying it cancels what has not ended.
class Answers {
public:
  explicit Answers(const boost::asio::any_io_executor& executor);
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers();

  /// Its index is the number of streams added before.
  void add(Stream stream);

  struct Item {
    std::size_t index = 0; ///< Of the stream.
    Event event;
  };
  /// The next event of any; none when all have ended.
  boost::asio::awaitable<std::optional<Item>> next();
  /// Until then: whether `next` would return at once.
  boost::asio::awaitable<bool> wait(std::chrono::steady_clock::time_point until);
  /// The next event of any, if there is one now.
  std::optional<Item> try_next();
  /// Waits until then, but not beyond the end of any.
  boost::asio::awaitable<void> rest(std::chrono::steady_clock::time_point until);
  void cancel();

private:
  struct Shared;
  static void listen(const std::shared_ptr<Shared>& shared, std::size_t index);

  std::shared_ptr<Shared> shared_; // handlers hold it too
};

} // namespace paceline::apps::serve
