// A client of the simplest kind, for tests: blocking, one connection, what it sends it sends as is.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

struct HttpReply {
  int status = 0;                             ///< 0: the server closed without one.
  std::map<std::string, std::string> headers; ///< Names in lower case.
  std::string body;

  boost::json::object json() const;
};

class HttpClient {
public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  /// receive_bytes: of what the server sends, so little is kept by the system; 0: as it likes.
  explicit HttpClient(std::uint16_t port, int receive_bytes = 0);

  void send(const std::string& bytes);
  void send(const std::string& method, const std::string& target, const std::string& body = {},
            const Headers& headers = {});
  /// Reads a whole answer, of either framing.
  HttpReply read();
  HttpReply ask(const std::string& method, const std::string& target, const std::string& body = {},
                const Headers& headers = {});

  /// Reads a stream's head, then what each event holds; none at its end.
  HttpReply read_head();
  std::optional<std::string> read_event();
  /// That came between events, so far.
  int comments() const { return comments_; }
  /// Reads all events up to [DONE], which must come.
  std::vector<boost::json::object> read_events();

  /// Reads to the end of the connection: whether there was one, and not a reset.
  bool ended();
  void close();
  boost::asio::ip::tcp::socket& socket() { return socket_; }

private:
  bool fill();
  std::string line();
  std::string exactly(std::size_t count);
  std::string chunk();

  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  std::string buffer_; ///< Read, not taken.
  std::string events_; ///< Of a stream, not taken.
  int comments_ = 0;
};

} // namespace paceline::testing
