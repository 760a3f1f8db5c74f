// Detecting the end of connections that somebody else reads.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <set>

namespace paceline::apps::serve {

/// Watches copies of sockets' descriptors, only for whether neither side sends any more: traffic
/// wakes nobody here. Threads: the executor's, which must be one.
class Hangups {
public:
  /// gone: called for each connection that has ended.
  Hangups(const boost::asio::any_io_executor& executor, std::function<void()> gone);
  Hangups(const Hangups&) = delete;
  Hangups& operator=(const Hangups&) = delete;
  ~Hangups();

  /// Watches a connection. False: the system has no more descriptors.
  bool watch(int socket);
  /// Stops watching, and leaves its executor nothing to wait for. Connections that are still there
  /// count as ended.
  void stop();

private:
  void wait();
  void end(int copy);

  boost::asio::posix::stream_descriptor events_; ///< An epoll of the copies.
  std::function<void()> gone_;
  std::set<int> copies_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true); ///< Handlers may outlive this.
};

} // namespace paceline::apps::serve
