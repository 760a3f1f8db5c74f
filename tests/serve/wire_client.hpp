// A client of the protocol over TCP of the simplest kind, for tests: blocking, and it sends what it
// is told to.
#pragma once

#include "net/frames.hpp"
#include "net/framing.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace paceline::testing {

class WireClient {
public:
  /// receive_bytes: of what the server sends, so little is kept by the system; 0: as it likes.
  explicit WireClient(std::uint16_t port, int receive_bytes = 0);

  /// Throws when the server has closed.
  void send(const std::string& bytes);
  void send(const net::ToServer& message);
  /// The next message; none at the connection's end.
  std::optional<net::ToClient> read();
  /// Says hello; the test fails unless it is welcome.
  net::Welcome greet(const std::string& key = {});
  /// Reads to the end of the connection; the last failure that was told, if any.
  std::optional<net::Failure> read_to_end();

  void end_sending();
  void close();
  /// So that the server sees a reset.
  void abort();
  boost::asio::ip::tcp::socket& socket() { return socket_; }

private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  net::FrameReader reader_;
};

/// Makes a socket forget its connection without a word to the other side. False: not permitted
/// here.
bool vanish(boost::asio::ip::tcp::socket& socket);

} // namespace paceline::testing
