#include "tests/serve/wire_client.hpp"

#include "net/codec.hpp"
#include "net/limits.hpp"

#include <array>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>
#include <netinet/tcp.h>

namespace paceline::testing {
namespace asio = boost::asio;
using asio::ip::tcp;

WireClient::WireClient(std::uint16_t port, int receive_bytes)
    : socket_(io_, tcp::v4()), reader_(net::limits::client_frame_bytes) {
  if (receive_bytes > 0)
    socket_.set_option(asio::socket_base::receive_buffer_size(receive_bytes));
  socket_.connect({asio::ip::address_v4::loopback(), port});
}

void WireClient::send(const std::string& bytes) {
  asio::write(socket_, asio::buffer(bytes));
}

void WireClient::send(const net::ToServer& message) {
  std::string frame;
  net::append(frame, message);
  send(frame);
}

std::optional<net::ToClient> WireClient::read() {
  std::array<char, 16384> part{};
  for (;;) {
    const auto frame = reader_.next();
    REQUIRE(frame.has_value());
    if (*frame) {
      auto message = net::read_to_client(**frame);
      REQUIRE(message.has_value());
      return std::move(*message);
    }
    boost::system::error_code ended;
    const std::size_t count = socket_.read_some(asio::buffer(part), ended);
    if (ended)
      return std::nullopt;
    reader_.feed({part.data(), count});
  }
}

net::Welcome WireClient::greet(const std::string& key) {
  send(net::Hello{net::limits::version_min, net::limits::version_max, key, "test"});
  const auto answer = read();
  REQUIRE(answer.has_value());
  REQUIRE(std::holds_alternative<net::Welcome>(*answer));
  return std::get<net::Welcome>(*answer);
}

std::optional<net::Failure> WireClient::read_to_end() {
  std::optional<net::Failure> last;
  while (auto message = read())
    if (auto* failure = std::get_if<net::Failure>(&*message))
      last = std::move(*failure);
  return last;
}

void WireClient::end_sending() {
  boost::system::error_code gone;
  socket_.shutdown(tcp::socket::shutdown_send, gone);
}

void WireClient::close() {
  socket_.close();
}

void WireClient::abort() {
  socket_.set_option(asio::socket_base::linger(true, 0));
  socket_.close();
}

bool vanish(tcp::socket& socket) {
  const int on = 1;
  if (setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0)
    return false;
  socket.close();
  return true;
}

} // namespace paceline::testing
