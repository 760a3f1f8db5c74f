// A connection's bytes, with or without TLS, behind one type.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <memory>
#include <string>

namespace paceline::apps::serve {

/// A completion token for co_await: an operation returns its error code first, and throws nothing.
inline constexpr auto as_result = boost::asio::as_tuple(boost::asio::use_awaitable);

/// Makes small writes go out at once, and a dead peer be noticed. timeout: how long data may stay
/// unacknowledged.
void set_options(boost::asio::ip::tcp::socket& socket, std::chrono::milliseconds timeout);

/// An AsyncReadStream and AsyncWriteStream, as Asio and Beast want them.
class Transport {
public:
  using Socket = boost::asio::ip::tcp::socket;
  using executor_type = Socket::executor_type;

  /// tls: null for plain TCP; not needed after the constructor.
  Transport(Socket socket, boost::asio::ssl::context* tls);

  /// Does TLS' handshake; without TLS it returns true at once.
  boost::asio::awaitable<bool> handshake();
  /// Says that nothing more will be written.
  boost::asio::awaitable<void> finish_writing();
  /// Makes the operations under way complete with operation_aborted.
  void cancel();
  void close();
  void set_options(std::chrono::milliseconds timeout) { serve::set_options(socket(), timeout); }
  std::string peer() const;

  executor_type get_executor() { return socket().get_executor(); }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, Signature>(
        [this](auto handler, const Buffers& into) {
          if (tls_)
            tls_->async_read_some(into, std::move(handler));
          else
            plain_->async_read_some(into, std::move(handler));
        },
        token, buffers);
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, Signature>(
        [this](auto handler, const Buffers& from) {
          if (tls_)
            tls_->async_write_some(from, std::move(handler));
          else
            plain_->async_write_some(from, std::move(handler));
        },
        token, buffers);
  }

private:
  using Signature = void(boost::system::error_code, std::size_t);
  using Tls = boost::asio::ssl::stream<Socket>;
  Socket& socket() { return tls_ ? tls_->next_layer() : *plain_; }

  std::unique_ptr<Socket> plain_; // Exactly one of the two is set.
  std::unique_ptr<Tls> tls_;
  std::string peer_;
};

} // namespace paceline::apps::serve
