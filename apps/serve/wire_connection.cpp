#include "apps/serve/wire_connection.hpp"

#include "net/codec.hpp"
#include "net/limits.hpp"
#include "paceline/version.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t read_bytes = 16384;

Error protocol_error(std::string what) {
  return {ErrorCode::invalid_argument, std::move(what),
          "speak paceline.proto, or use Paceline's own client"};
}

} // namespace

WireConnection::WireConnection(Transport::Socket socket, asio::ssl::context* tls, Service& service)
    : transport_(std::move(socket), tls), service_(&service),
      reading_(std::make_shared<Watchdog>(transport_.get_executor(), [this] { late(); })),
      writing_(std::make_shared<Watchdog>(transport_.get_executor(), [this] { gone(); })),
      memory_(service.memory()), reader_(net::limits::hello_bytes),
      news_(transport_.get_executor(), asio::steady_timer::time_point::max()),
      space_(transport_.get_executor(), asio::steady_timer::time_point::max()),
      requests_(service, transport_.peer(), [this] { news_.cancel(); }) {
  ++service.connections;
  ++service.tcp_connections;
}

WireConnection::~WireConnection() {
  reading_->stop();
  writing_->stop();
  --service_->connections;
  --service_->tcp_connections;
}

void WireConnection::close() {
  gone();
}

void WireConnection::gone() {
  gone_ = true;
  transport_.close();
  news_.cancel();
  space_.cancel();
}

/// Nothing, or not all of a frame, came in time.
void WireConnection::late() {
  if (closing_) // it has been told so, and did not leave
    return gone();
  const auto limit = reader_.amid() || !greeted_ ? service_->settings().receive_timeout
                                                 : service_->settings().idle_timeout;
  refuse({ErrorCode::deadline,
          fmt::format("{} for {:g} s", reader_.amid() ? "a frame was not whole" : "nothing came",
                      double(limit.count()) / 1000),
          "send frames at once, and a Ping when there is nothing to ask"});
}

void WireConnection::tell(const net::ToClient& message) {
  net::append(out_, message);
  news_.cancel();
}

/// The last thing that the client is told.
void WireConnection::refuse(Error error) {
  if (closing_ || gone_)
    return;
  service_->log().info("refused", {{"peer", transport_.peer()}, {"what", error.message}});
  service_->metrics().submitted(to_string(error.code));
  tell(net::Failure{0, std::move(error)});
  closing_ = true;
  space_.cancel();
}

void WireConnection::drain() {
  if (greeted_)
    tell(net::Draining{});
}

std::size_t WireConnection::frame_bytes_max() const {
  return std::clamp(service_->settings().max_body_bytes, net::limits::hello_bytes,
                    net::limits::frame_bytes_max);
}

asio::awaitable<void> WireConnection::run() {
  using namespace asio::experimental::awaitable_operators;
  transport_.set_options(service_->settings().write_timeout);
  reading_->set(service_->settings().receive_timeout);
  const bool welcome = co_await transport_.handshake();
  if (!welcome || gone_)
    co_return;
  co_await (read_requests() && write_answers());
  transport_.close();
  reading_->clear();
  co_await requests_.abandon();
}

asio::awaitable<void> WireConnection::turn_away() {
  using namespace asio::experimental::awaitable_operators;
  reading_->set(limits::linger_time);
  const bool welcome = co_await transport_.handshake();
  if (!welcome || gone_)
    co_return;
  refuse({ErrorCode::overloaded, "too many connections", "try again later"});
  co_await (read_away() && write_answers());
}

/// The next message; none: it was wrong, late or the end.
asio::awaitable<std::optional<net::ToServer>> WireConnection::receive() {
  std::array<char, read_bytes> part{};
  while (!closing_ && !gone_) {
    const auto frame = reader_.next();
    if (!frame) {
      refuse(frame.error());
      break;
    }
    if (*frame) {
      memory_.hold(unread_ = 0);
      auto message = net::read_to_server(**frame);
      if (message)
        co_return std::move(*message);
      refuse(std::move(message.error()));
      break;
    }
    const auto [failed, count] = co_await transport_.async_read_some(asio::buffer(part), as_result);
    if (failed) {
      gone();
      break;
    }
    if (!memory_.hold(unread_ += count)) {
      refuse({ErrorCode::overloaded, no_request_memory().message, "retry with growing pauses"});
      break;
    }
    const bool amid = reader_.amid();
    reader_.feed({part.data(), count});
    if (!amid && greeted_)
      reading_->set(service_->settings().receive_timeout);
  }
  co_return std::nullopt;
}

asio::awaitable<void> WireConnection::read_requests() {
  co_await greet();
  while (!closing_ && !gone_) {
    if (out_.size() > limits::control_bytes) { // a client that asks and does not read
      reading_->clear();
      co_await space_.async_wait(as_result);
      continue;
    }
    reading_->set(reader_.amid() ? service_->settings().receive_timeout
                                 : service_->settings().idle_timeout);
    auto message = co_await receive();
    if (!message)
      break;
    reading_->clear();
    const bool fine = co_await take(std::move(*message));
    if (!fine)
      break;
  }
  co_await read_away();
}

/// After a refusal: what is still under way is read, or it would take the refusal with it.
asio::awaitable<void> WireConnection::read_away() {
  reading_->set(limits::linger_time);
  std::array<char, read_bytes> away{};
  for (std::size_t total = 0; total < limits::linger_bytes && !gone_;) {
    const auto [failed, count] = co_await transport_.async_read_some(asio::buffer(away), as_result);
    if (failed == asio::error::eof && closing_)
      co_return; // it may still read
    if (failed)
      break;
    total += count;
  }
  gone();
}

asio::awaitable<void> WireConnection::greet() {
  const auto first = co_await receive();
  if (!first)
    co_return;
  const auto* hello = std::get_if<net::Hello>(&*first);
  if (!hello)
    co_return refuse(protocol_error("a connection must begin with Hello"));
  if (auto wrong = check(*hello))
    co_return refuse(std::move(*wrong));
  greeted_ = true;
  requests_.set_client(service_->keys().holder_of_key(hello->api_key));
  reader_.set_limit(frame_bytes_max());
  tell(net::Welcome{.version = std::min(hello->version_max, net::limits::version_max),
                    .server = "paceline/" PACELINE_VERSION,
                    .model = service_->settings().model_names.front(),
                    .idle = service_->settings().idle_timeout,
                    .frame_bytes_max = frame_bytes_max(),
                    .ready = service_->state() == Service::State::ready});
  if (service_->state() == Service::State::draining)
    tell(net::Draining{});
}

std::optional<Error> WireConnection::check(const net::Hello& hello) const {
  using net::limits::version_max;
  using net::limits::version_min;
  if (hello.version_min > hello.version_max || hello.version_max < version_min ||
      hello.version_min > version_max)
    return Error{ErrorCode::unsupported,
                 fmt::format("the client speaks versions {} to {} of the protocol, this server {} "
                             "to {}",
                             hello.version_min, hello.version_max, version_min, version_max),
                 hello.version_max < version_min ? "use a newer client" : "use a newer server"};
  if (!service_->keys().accept_key(hello.api_key))
    return Error{ErrorCode::invalid_argument, "there is no such API key",
                 "give one of the server's"};
  return std::nullopt;
}

/// False: nothing can follow.
asio::awaitable<bool> WireConnection::take(net::ToServer message) {
  if (auto* submit = std::get_if<net::Submit>(&message)) {
    if (submit->number <= newest_) {
      refuse(protocol_error(
          fmt::format("request {} after request {}: numbers must grow", submit->number, newest_)));
      co_return false;
    }
    newest_ = submit->number;
    const auto told = co_await requests_.submit(std::move(*submit));
    tell(told);
  } else if (const auto* cancel = std::get_if<net::Cancel>(&message)) {
    if (cancel->number == 0 || cancel->number > newest_) {
      refuse(protocol_error(fmt::format("there was no request {}", cancel->number)));
      co_return false;
    }
    requests_.cancel(cancel->number);
  } else if (const auto* ping = std::get_if<net::Ping>(&message)) {
    tell(net::Pong{ping->number, service_->state() == Service::State::ready,
                   service_->fleet().well()});
  } else {
    refuse(protocol_error("a second Hello"));
    co_return false;
  }
  co_return true;
}

/// Until there is something to write, and a little longer while it is nothing urgent.
asio::awaitable<void> WireConnection::await_answers() {
  while (!gone_ && !closing_ && out_.empty() && !requests_.urgent()) {
    const bool some = requests_.ready();
    const auto next = service_->next_write(written_);
    if (some && Clock::now() >= next)
      break;
    news_.expires_at(some ? next : Clock::time_point::max());
    co_await news_.async_wait(as_result);
  }
}

asio::awaitable<void> WireConnection::write_answers() {
  for (bool fine = true; fine && !gone_;) {
    co_await await_answers();
    const bool last = closing_;
    std::string frames = std::exchange(out_, {});
    space_.cancel();
    if (!last)
      requests_.take(frames, limits::events_bytes);
    fine = co_await write(frames);
    requests_.written();
    if (last)
      break;
  }
  transport_.shut_writing();
}

asio::awaitable<bool> WireConnection::write(const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size() && !gone_;) {
    writing_->set(service_->settings().write_timeout);
    const auto [failed, count] = co_await transport_.async_write_some(
        asio::buffer(bytes.data() + sent, bytes.size() - sent), as_result);
    sent += count;
    if (failed)
      gone();
  }
  writing_->clear();
  written_ = Clock::now();
  co_return !gone_;
}

} // namespace paceline::apps::serve
