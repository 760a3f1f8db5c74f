#include "apps/server/transport.hpp"

#include "apps/console/limits.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

template <int Name>
using TcpOption = asio::detail::socket_option::integer<IPPROTO_TCP, Name>;

// A peer that no longer answers is noticed after about 90 seconds if nothing is written.
constexpr int keepalive_idle_seconds = 60;
constexpr int keepalive_interval_seconds = 10;
constexpr int keepalive_probes = 3;

std::string name_of(const Transport::Socket& socket) {
  boost::system::error_code gone;
  const auto endpoint = socket.remote_endpoint(gone);
  return gone ? "?" : fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
}

} // namespace

Transport::Transport(Socket socket, asio::ssl::context* tls) : peer_(name_of(socket)) {
  if (tls)
    tls_ = std::make_unique<Tls>(std::move(socket), *tls);
  else
    plain_ = std::make_unique<Socket>(std::move(socket));
}

asio::awaitable<bool> Transport::handshake() {
  if (!tls_)
    co_return true;
  const auto [failed] = co_await tls_->async_handshake(asio::ssl::stream_base::server, as_result);
  co_return !failed;
}

asio::awaitable<void> Transport::finish_writing() {
  if (tls_)
    co_await tls_->async_shutdown(as_result);
  boost::system::error_code gone;
  socket().shutdown(Socket::shutdown_send, gone);
}

void Transport::cancel() {
  boost::system::error_code ignored;
  socket().cancel(ignored);
}

void Transport::close() {
  boost::system::error_code ignored;
  socket().close(ignored);
}

void set_options(asio::ip::tcp::socket& s, std::chrono::milliseconds timeout) {
  boost::system::error_code ignored; // These options help, but nothing depends on them.
  s.set_option(asio::ip::tcp::no_delay(true), ignored);
  s.set_option(asio::socket_base::send_buffer_size(int(limits::send_bytes)), ignored);
  s.set_option(asio::socket_base::keep_alive(true), ignored);
  s.set_option(TcpOption<TCP_KEEPIDLE>(keepalive_idle_seconds), ignored);
  s.set_option(TcpOption<TCP_KEEPINTVL>(keepalive_interval_seconds), ignored);
  s.set_option(TcpOption<TCP_KEEPCNT>(keepalive_probes), ignored);
  s.set_option(TcpOption<TCP_USER_TIMEOUT>(int(timeout.count())), ignored);
}

std::string Transport::peer() const {
  return peer_;
}

} // namespace paceline::apps::serve
