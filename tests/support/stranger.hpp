// Who speaks to a node without being an engine.
#pragma once

#include "nodes/frames.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace paceline::testing {

template <class Value>
std::vector<char> frame(const Value& value) {
  std::vector<char> bytes;
  nodes::append_frame(bytes, value);
  return bytes;
}

/// A connection of nobody that a node knows, on this machine. Threads: one.
class Stranger {
public:
  explicit Stranger(std::uint16_t port) : socket_(io_) {
    socket_.connect({boost::asio::ip::address_v4::loopback(), port});
  }
  /// port: as a program says it.
  explicit Stranger(const std::string& port) : Stranger(std::uint16_t(std::stoi(port))) {}
  void send(const std::vector<char>& bytes) {
    boost::system::error_code ignored; // it may have been cut off already
    boost::asio::write(socket_, boost::asio::buffer(bytes), ignored);
  }
  /// All that comes until the node closes the connection.
  std::string read_to_end() {
    std::string all;
    boost::system::error_code ended;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(all), ended);
    return all;
  }
  /// Has `see` look at each value that comes, until it says that this was enough. False: the
  /// connection ended before.
  template <class See>
  bool listen(const See& see) {
    std::array<char, nodes::frame_header_bytes> header{};
    boost::system::error_code ended;
    for (bool enough = false; !enough;) {
      boost::asio::read(socket_, boost::asio::buffer(header), ended);
      const auto is = nodes::read_header(header);
      if (ended || !is)
        return false;
      std::vector<char> content(is->size);
      boost::asio::read(socket_, boost::asio::buffer(content), ended);
      nodes::read_frame(is->kind, content, [&](auto value) { enough = see(std::move(value)); });
    }
    return true;
  }
  /// The next value of this kind; those before it are passed over. None: it was refused, or the
  /// connection ended.
  template <class Value>
  std::optional<Value> read() {
    std::optional<Value> found;
    listen([&](auto value) {
      using Is = decltype(value);
      if constexpr (std::is_same_v<Is, Value>)
        found = std::move(value);
      return std::is_same_v<Is, Value> || std::is_same_v<Is, messages::Refused>;
    });
    return found;
  }

private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
};

} // namespace paceline::testing
