// A client's connection to a server: bytes in order, frames, pings, and why it ended.
#pragma once

#include "net/frames.hpp"
#include "net/framing.hpp"
#include "paceline/client.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace paceline::net {

/// Threads: the client's own. Used once: open, then run.
class ClientLink {
public:
  /// options: must outlive this.
  ClientLink(boost::asio::io_context& io, const ClientOptions& options);

  /// Connects and greets. Errors: who cannot be reached, or what the server refuses.
  boost::asio::awaitable<Result<Welcome>> open();
  /// Reads and writes until the connection is lost; says why. take: is given every message.
  boost::asio::awaitable<Error> run(std::function<void(ToClient)> take);
  /// What waits on it ends soon.
  void close();

  /// Puts frames into the queue of what is to be written; gives the place of their end in it.
  std::uint64_t send(const std::string& frames);
  /// How much of the queue the system has taken: what lies beyond has never left.
  std::uint64_t sent() const { return sent_; }
  /// The server said something besides its welcome.
  bool served() const { return served_; }

private:
  using Socket = boost::asio::ip::tcp::socket;
  using Tls = boost::asio::ssl::stream<Socket>;
  using Clock = std::chrono::steady_clock;
  struct Count {
    boost::system::error_code failed;
    std::size_t bytes = 0;
  };

  boost::asio::awaitable<void> reach();
  boost::asio::awaitable<void> shake_hands();
  boost::asio::awaitable<std::optional<ToClient>> receive();
  boost::asio::awaitable<Count> read_some(boost::asio::mutable_buffer into);
  boost::asio::awaitable<Count> write_some(boost::asio::const_buffer from);
  boost::asio::awaitable<void> read(const std::function<void(ToClient)>& take);
  boost::asio::awaitable<void> write();
  boost::asio::awaitable<void> ping();
  void lose(std::string what, std::string hint = {});
  std::string place() const;

  const ClientOptions& options_;
  boost::asio::ip::tcp::resolver resolver_;
  Socket plain_;
  std::unique_ptr<boost::asio::ssl::context> trust_;
  std::unique_ptr<Tls> tls_;
  boost::asio::steady_timer limit_; ///< Of `open`, and then until the next ping.
  boost::asio::steady_timer news_;  ///< Never expires: cancelled when there is something to write.
  FrameReader reader_;
  std::string queue_; ///< Not handed to the writer yet.
  std::uint64_t queued_ = 0;
  std::uint64_t sent_ = 0;
  Clock::time_point heard_;
  std::chrono::milliseconds idle_{};
  std::optional<Error> lost_;
  bool served_ = false;
};

} // namespace paceline::net
