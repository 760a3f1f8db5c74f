// What the server knows of a connection, whichever protocol it speaks.
#pragma once

#include <boost/asio/awaitable.hpp>

namespace paceline::apps::serve {

/// Threads: the server's only.
class AnyConnection {
public:
  virtual ~AnyConnection() = default;

  /// Until the client leaves, or something is wrong.
  virtual boost::asio::awaitable<void> run() = 0;
  /// One connection too many: says so, and ends.
  virtual boost::asio::awaitable<void> turn_away() = 0;
  /// Nothing new is taken from now on.
  virtual void drain() {}
  /// Ends `run` soon, whatever it waits for.
  virtual void close() = 0;
};

} // namespace paceline::apps::serve
