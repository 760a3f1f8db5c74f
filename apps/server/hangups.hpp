// When connections end that somebody else reads.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <set>

namespace paceline::apps::serve {

/// Looks at copies of sockets' descriptors, and at nothing but that neither side sends any more:
/// traffic wakes nobody here. Threads: the executor's, which must be one.
class Hangups {
public:
  /// gone: called for each connection that has ended.
  Hangups(const boost::asio::any_io_executor& executor, std::function<void()> gone);
  Hangups(const Hangups&) = delete;
  Hangups& operator=(const Hangups&) = delete;
  ~Hangups();

  /// False: the system has no more descriptors.
  bool watch(int socket);
  /// Looks no more, and leaves its executor nothing to wait for. Connections that are there still
  /// count as ended.
  void stop();

private:
  void wait();
  void end(int copy);

  boost::asio::posix::stream_descriptor events_; ///< An epoll of the copies.
  std::function<void()> gone_;
  std::set<int> copies_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true); ///< A handler may come later.
};

} // namespace paceline::apps::serve
