#include "net/client_link.hpp"

#include "base/localhost.hpp"
#include "net/codec.hpp"
#include "net/limits.hpp"
#include "paceline/version.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

namespace paceline::net {
namespace asio = boost::asio;
namespace {

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t read_bytes = std::size_t(64) << 10;

} // namespace

ClientLink::ClientLink(asio::io_context& io, const ClientOptions& options)
    : options_(options), resolver_(io), plain_(io), limit_(io),
      news_(io, asio::steady_timer::time_point::max()), reader_(limits::client_frame_bytes) {}

std::string ClientLink::place() const {
  return fmt::format("{}:{}", options_.host, options_.port);
}

void ClientLink::lose(std::string what, std::string hint) {
  if (!lost_)
    lost_ = Error{ErrorCode::unavailable, std::move(what), std::move(hint)};
  close();
}

void ClientLink::close() {
  if (!lost_)
    lost_ = Error{ErrorCode::cancelled, "the client was closed", ""};
  boost::system::error_code ignored;
  resolver_.cancel();
  Socket& socket = tls_ ? tls_->next_layer() : plain_;
  socket.close(ignored);
  limit_.cancel();
  news_.cancel();
}

std::uint64_t ClientLink::send(const std::string& frames) {
  queue_ += frames;
  queued_ += frames.size();
  news_.cancel();
  return queued_;
}

asio::awaitable<Result<Welcome>> ClientLink::open() {
  limit_.expires_after(options_.connect_timeout);
  const auto opening = std::make_shared<bool>(true); // an alarm may come when all is over
  limit_.async_wait([this, kept = std::weak_ptr(opening)](boost::system::error_code cancelled) {
    if (!cancelled && !kept.expired())
      lose("no answer from " + place() + " in time",
           "check host and port, or raise connect_timeout");
  });
  co_await reach();
  if (!lost_ && options_.tls)
    co_await shake_hands();
  std::optional<ToClient> first;
  if (!lost_) {
    append(queue_, Hello{limits::version_min, limits::version_max, options_.api_key,
                         "paceline-client/" PACELINE_VERSION});
    queued_ = queue_.size();
    const std::string hello = std::exchange(queue_, {});
    while (sent_ < hello.size() && !lost_) {
      const Count wrote =
          co_await write_some(asio::buffer(hello.data() + sent_, hello.size() - sent_));
      sent_ += wrote.bytes;
      if (wrote.failed)
        lose("the connection to " + place() + " was lost (" + wrote.failed.message() + ")");
    }
    first = co_await receive();
  }
  limit_.cancel();
  if (lost_)
    co_return tl::unexpected(*lost_);
  if (auto* refused = std::get_if<Failure>(&*first)) {
    close();
    co_return tl::unexpected(std::move(refused->error));
  }
  auto* welcome = std::get_if<Welcome>(&*first);
  if (!welcome) {
    close();
    co_return fail(ErrorCode::unsupported, place() + " does not greet as Paceline does",
                   "connect to the port of `paceline serve --tcp-port`");
  }
  idle_ = welcome->idle;
  co_return std::move(*welcome);
}

asio::awaitable<void> ClientLink::reach() {
  auto found = base::localhost(options_.host, options_.port);
  if (!found) {
    auto [unknown, asked] =
        co_await resolver_.async_resolve(options_.host, std::to_string(options_.port), as_result);
    if (unknown)
      co_return lose("there is no host " + options_.host + " (" + unknown.message() + ")",
                     "check the name");
    found = std::move(asked);
  }
  if (lost_)
    co_return;
  const auto [refused, where] = co_await asio::async_connect(plain_, *found, as_result);
  if (refused)
    co_return lose("cannot connect to " + place() + " (" + refused.message() + ")",
                   "check that `paceline serve --tcp-port` runs there");
  boost::system::error_code ignored;
  plain_.set_option(asio::ip::tcp::no_delay(true), ignored);
  plain_.set_option(asio::socket_base::keep_alive(true), ignored);
}

asio::awaitable<void> ClientLink::shake_hands() {
  boost::system::error_code wrong;
  trust_ = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  if (options_.tls_authorities.empty())
    trust_->set_default_verify_paths(wrong);
  else
    trust_->load_verify_file(options_.tls_authorities, wrong);
  if (wrong)
    co_return lose("cannot read the authorities in " + options_.tls_authorities + " (" +
                       wrong.message() + ")",
                   "give a PEM file that this user may read");
  tls_ = std::make_unique<Tls>(std::move(plain_), *trust_);
  tls_->set_verify_mode(asio::ssl::verify_peer);
  tls_->set_verify_callback(asio::ssl::host_name_verification(options_.host));
  SSL_set_tlsext_host_name(tls_->native_handle(), options_.host.c_str());
  const auto [failed] = co_await tls_->async_handshake(asio::ssl::stream_base::client, as_result);
  if (failed)
    lose("no TLS with " + place() + " (" + failed.message() + ")",
         "check that the server has a certificate for this name, by an authority in "
         "tls_authorities");
}

asio::awaitable<ClientLink::Count> ClientLink::read_some(asio::mutable_buffer into) {
  if (tls_) {
    const auto [failed, bytes] = co_await tls_->async_read_some(into, as_result);
    co_return Count{failed, bytes};
  }
  const auto [failed, bytes] = co_await plain_.async_read_some(into, as_result);
  co_return Count{failed, bytes};
}

asio::awaitable<ClientLink::Count> ClientLink::write_some(asio::const_buffer from) {
  if (tls_) {
    const auto [failed, bytes] = co_await tls_->async_write_some(from, as_result);
    co_return Count{failed, bytes};
  }
  const auto [failed, bytes] = co_await plain_.async_write_some(from, as_result);
  co_return Count{failed, bytes};
}

/// The next message; none: the connection is lost.
asio::awaitable<std::optional<ToClient>> ClientLink::receive() {
  std::string part(read_bytes, '\0');
  while (!lost_) {
    const auto frame = reader_.next();
    if (!frame) {
      lose("the server sent what is no frame (" + frame.error().message + ")");
      break;
    }
    if (*frame) {
      auto message = read_to_client(**frame);
      if (message)
        co_return std::move(*message);
      lose(message.error().message, message.error().hint);
      break;
    }
    const Count got = co_await read_some(asio::buffer(part));
    heard_ = Clock::now();
    if (got.failed)
      lose("the connection to " + place() + " was lost (" + got.failed.message() + ")");
    else
      reader_.feed({part.data(), got.bytes});
  }
  co_return std::nullopt;
}

asio::awaitable<Error> ClientLink::run(std::function<void(ToClient)> take) {
  using namespace asio::experimental::awaitable_operators;
  co_await (read(take) && write() && ping());
  co_return *lost_;
}

asio::awaitable<void> ClientLink::read(const std::function<void(ToClient)>& take) {
  while (!lost_) {
    auto message = co_await receive();
    if (!message)
      break;
    auto* refused = std::get_if<Failure>(&*message);
    if (refused && refused->number == 0) // of the connection
      co_return lose(refused->error.message, refused->error.hint);
    served_ = true;
    take(std::move(*message));
  }
}

asio::awaitable<void> ClientLink::write() {
  while (!lost_) {
    if (queue_.empty()) {
      co_await news_.async_wait(as_result);
      continue;
    }
    const std::string frames = std::exchange(queue_, {});
    for (std::size_t done = 0; done < frames.size() && !lost_;) {
      const Count wrote =
          co_await write_some(asio::buffer(frames.data() + done, frames.size() - done));
      done += wrote.bytes;
      sent_ += wrote.bytes;
      if (wrote.failed)
        lose("the connection to " + place() + " was lost (" + wrote.failed.message() + ")");
    }
  }
}

/// So that neither side takes the other for dead, or waits for one that is.
asio::awaitable<void> ClientLink::ping() {
  constexpr int pings = 3; // before somebody gives up
  const auto pause =
      std::max(std::min(options_.silence, idle_) / pings, std::chrono::milliseconds(1));
  heard_ = Clock::now();
  while (!lost_) {
    limit_.expires_after(pause);
    co_await limit_.async_wait(as_result);
    if (lost_)
      break;
    if (Clock::now() - heard_ > options_.silence) {
      lose("nothing came from " + place() + " any more");
      break;
    }
    std::string frame;
    append(frame, Ping{});
    send(frame);
  }
}

} // namespace paceline::net
