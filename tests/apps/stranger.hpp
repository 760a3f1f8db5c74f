// Who speaks to a node without being an engine.
#pragma once

#include "actors/node/frames.hpp"
#include "tests/apps/running_node.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace paceline::testing {

/// A connection of nobody that a node knows.
class Stranger {
public:
  explicit Stranger(const RunningNode& node) : socket_(io_) {
    boost::asio::connect(socket_,
                         boost::asio::ip::tcp::resolver(io_).resolve("127.0.0.1", node.port()));
  }
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
  /// The next value of this kind; those before it are passed over. None: it was refused, or the
  /// connection ended.
  template <class Value>
  std::optional<Value> read() {
    std::optional<Value> found;
    std::array<char, actors::frame_header_bytes> header{};
    boost::system::error_code ended;
    while (!found) {
      boost::asio::read(socket_, boost::asio::buffer(header), ended);
      const auto is = actors::read_header(header);
      if (ended || !is)
        return std::nullopt;
      std::vector<char> content(is->size);
      boost::asio::read(socket_, boost::asio::buffer(content), ended);
      if (is->kind == actors::FrameKind::DraftRefused &&
          !std::is_same_v<Value, messages::DraftRefused>)
        return std::nullopt;
      actors::read_frame(is->kind, content, [&](auto value) {
        if constexpr (std::is_same_v<decltype(value), Value>)
          found = std::move(value);
      });
    }
    return found;
  }

private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
};

inline std::vector<char> header_bytes(const actors::FrameHeader& header) {
  const auto bytes = actors::write_header(header);
  return {bytes.begin(), bytes.end()};
}

template <class Value>
std::vector<char> frame(const Value& value) {
  std::vector<char> bytes;
  actors::append_frame(bytes, value);
  return bytes;
}

struct Certificates {
  TemporaryFolder folder;
  std::string path = folder.file("tls");
  /// machines: as the program takes them; none: one certificate for all.
  explicit Certificates(const std::vector<std::string>& machines = {}) {
    std::vector<std::string> arguments{"node", "--make-certificates", path};
    arguments.insert(arguments.end(), machines.begin(), machines.end());
    const auto made = run_paceline(arguments);
    REQUIRE_MESSAGE(made.status == 0, made.errors);
  }
  /// machine: its folder; empty: of all.
  NodeTls files(const std::string& machine = "") const {
    const std::string at = path + "/" + machine;
    return {at + "/certificate.pem", at + "/key.pem", at + "/authority.pem"};
  }
  std::vector<std::string> arguments(const std::string& machine = "") const {
    const NodeTls tls = files(machine);
    return {"--tls-cert", tls.certificate, "--tls-key", tls.key, "--tls-ca", tls.authority};
  }
};

} // namespace paceline::testing
