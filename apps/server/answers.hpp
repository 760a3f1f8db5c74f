// The answers of one request, merged into one sequence of events in the order of their coming.
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

/// Merges the streams of one request. It holds back at most one event of each stream; later ones
/// are joined to one by the stream itself. Destroying it cancels what has not ended.
class Answers {
public:
  explicit Answers(const boost::asio::any_io_executor& executor);
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers();

  /// Adds a stream, whose index is the number of streams added before.
  void add(Stream stream);

  struct Item {
    std::size_t index = 0; ///< Index of the stream.
    Event event;
  };
  /// Returns the next event of any stream; none when all have ended.
  boost::asio::awaitable<std::optional<Item>> next();
  /// Waits for an event, at most until then. Returns whether `next` would return at once.
  boost::asio::awaitable<bool> wait(std::chrono::steady_clock::time_point until);
  /// Returns the next event of any stream, if there is one now.
  std::optional<Item> try_next();
  /// Waits until then, or until any stream ends.
  boost::asio::awaitable<void> rest(std::chrono::steady_clock::time_point until);
  void cancel();

private:
  struct Shared;
  static void listen(const std::shared_ptr<Shared>& shared, std::size_t index);

  std::shared_ptr<Shared> shared_; // Shared with the handlers.
};

} // namespace paceline::apps::serve
