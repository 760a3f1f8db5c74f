// One connection to a server, with or without TLS, behind one type.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace paceline::apps::load {

/// A connection. An operation that takes too long (limits::silence_time) ends with
/// beast::error::timeout.
class HttpConnection {
public:
  using Parser = boost::beast::http::response_parser<boost::beast::http::buffer_body>;
  using Failed = boost::system::error_code;

  /// trust: null without TLS; must outlive this.
  HttpConnection(boost::asio::io_context& io, boost::asio::ssl::context* trust);

  boost::asio::awaitable<Failed>
  open(const std::string& host, const boost::asio::ip::tcp::resolver::results_type& addresses);
  boost::asio::awaitable<Failed>
  write(boost::beast::http::request<boost::beast::http::string_body>& request);
  boost::asio::awaitable<Failed> read_head(Parser& parser);
  /// Returns what came of the body; empty at its end. Valid until the next reading.
  boost::asio::awaitable<std::string_view> read_piece(Parser& parser, Failed& failed);
  void close();

private:
  using Plain = boost::beast::tcp_stream;
  using Tls = boost::beast::ssl_stream<Plain>;
  Plain& tcp() { return tls_ ? tls_->next_layer() : *plain_; }
  boost::asio::awaitable<Failed> shake_hands(const std::string& host);

  std::unique_ptr<Plain> plain_; // Exactly one of the two is set.
  std::unique_ptr<Tls> tls_;
  boost::beast::flat_buffer buffer_;
  std::array<char, 16384> piece_{};
};

} // namespace paceline::apps::load
