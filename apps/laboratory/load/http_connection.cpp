#include "apps/laboratory/load/http_connection.hpp"

#include "apps/console/limits.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <tuple>

namespace paceline::apps::load {
namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace {

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

} // namespace

HttpConnection::HttpConnection(asio::io_context& io, asio::ssl::context* trust) {
  if (trust)
    tls_ = std::make_unique<Tls>(io, *trust);
  else
    plain_ = std::make_unique<Plain>(io);
}

asio::awaitable<HttpConnection::Failed>
HttpConnection::open(const std::string& host,
                     const asio::ip::tcp::resolver::results_type& addresses) {
  tcp().expires_after(limits::connect_time);
  const auto connected = co_await tcp().async_connect(addresses, as_result);
  if (std::get<0>(connected))
    co_return std::get<0>(connected);
  Failed ignored;
  tcp().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  if (tls_)
    co_return co_await shake_hands(host);
  co_return Failed();
}

asio::awaitable<HttpConnection::Failed> HttpConnection::shake_hands(const std::string& host) {
  tls_->set_verify_mode(asio::ssl::verify_peer);
  tls_->set_verify_callback(asio::ssl::host_name_verification(host));
  SSL_set_tlsext_host_name(tls_->native_handle(), host.c_str());
  const auto shaken = co_await tls_->async_handshake(asio::ssl::stream_base::client, as_result);
  co_return std::get<0>(shaken);
}

asio::awaitable<HttpConnection::Failed>
HttpConnection::write(http::request<http::string_body>& request) {
  tcp().expires_after(limits::silence_time);
  if (tls_)
    co_return std::get<0>(co_await http::async_write(*tls_, request, as_result));
  co_return std::get<0>(co_await http::async_write(*plain_, request, as_result));
}

asio::awaitable<HttpConnection::Failed> HttpConnection::read_head(Parser& parser) {
  tcp().expires_after(limits::silence_time);
  if (tls_)
    co_return std::get<0>(co_await http::async_read_header(*tls_, buffer_, parser, as_result));
  co_return std::get<0>(co_await http::async_read_header(*plain_, buffer_, parser, as_result));
}

asio::awaitable<std::string_view> HttpConnection::read_piece(Parser& parser, Failed& failed) {
  tcp().expires_after(limits::silence_time);
  auto& body = parser.get().body();
  body.data = piece_.data();
  body.size = piece_.size();
  body.more = true;
  if (tls_)
    failed = std::get<0>(co_await http::async_read_some(*tls_, buffer_, parser, as_result));
  else
    failed = std::get<0>(co_await http::async_read_some(*plain_, buffer_, parser, as_result));
  if (failed == http::error::need_buffer) // The piece is full.
    failed = {};
  co_return std::string_view(piece_.data(), piece_.size() - body.size);
}

void HttpConnection::close() {
  tcp().close();
}

} // namespace paceline::apps::load
