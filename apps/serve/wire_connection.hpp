// A connection of the protocol over TCP: greets, reads requests, writes what happens to them.
#pragma once

#include "apps/serve/any_connection.hpp"
#include "apps/serve/service.hpp"
#include "apps/serve/transport.hpp"
#include "apps/serve/watchdog.hpp"
#include "apps/serve/wire_requests.hpp"
#include "net/framing.hpp"

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

namespace paceline::apps::serve {

/// One reader and one writer; a client that does not read is not read from either, once answers to
/// what it sends have piled up.
class WireConnection final : public AnyConnection {
public:
  /// service, tls (null: plain TCP): must outlive this.
  WireConnection(Transport::Socket socket, boost::asio::ssl::context* tls, Service& service);
  ~WireConnection() override;

  boost::asio::awaitable<void> run() override;
  boost::asio::awaitable<void> turn_away() override;
  void drain() override;
  void close() override;

private:
  boost::asio::awaitable<std::optional<net::ToServer>> receive();
  boost::asio::awaitable<void> read_requests();
  boost::asio::awaitable<void> greet();
  boost::asio::awaitable<bool> take(net::ToServer message);
  boost::asio::awaitable<void> write_answers();
  boost::asio::awaitable<void> await_answers();
  boost::asio::awaitable<bool> write(const std::string& bytes);
  boost::asio::awaitable<void> read_away();
  std::optional<Error> check(const net::Hello& hello) const;
  void late();
  void tell(const net::ToClient& message);
  void refuse(Error error);
  void gone();
  std::size_t frame_bytes_max() const;

  Transport transport_;
  Service* service_;
  std::shared_ptr<Watchdog> reading_;
  std::shared_ptr<Watchdog> writing_;
  MemoryShare memory_;     ///< For the frame that is being read.
  std::size_t unread_ = 0; ///< Bytes of it that have come.
  net::FrameReader reader_;
  boost::asio::steady_timer news_;  ///< Never expires: cancelled when there is something to write,
  boost::asio::steady_timer space_; ///< and this one when something was.
  WireRequests requests_;
  std::string out_; ///< Frames that are no events.
  net::RequestNumber newest_ = 0;
  std::chrono::steady_clock::time_point written_;
  bool greeted_ = false;
  bool closing_ = false; ///< What is in `out_` is the last.
  bool gone_ = false;
};

} // namespace paceline::apps::serve
