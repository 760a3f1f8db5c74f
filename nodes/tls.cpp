#include "nodes/tls.hpp"

#include <caf/io/middleman.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/doorman_impl.hpp>
#include <caf/io/network/interfaces.hpp>
#include <caf/io/network/stream_impl.hpp>
#include <caf/openssl/session.hpp>

namespace paceline::nodes {
namespace network = caf::io::network;
using caf::openssl::session_ptr;

namespace {

network::default_multiplexer& multiplexer_of(caf::actor_system& system) {
  return dynamic_cast<network::default_multiplexer&>(system.middleman().backend());
}

/// The policy by which a stream reads and writes its socket.
struct ThroughSession {
  session_ptr session;
  std::shared_ptr<const ExpectedPeer> expected; ///< Expected peer; null: the socket listened.

  network::rw_state read_some(std::size_t& count, network::native_socket socket, void* to,
                              std::size_t size) {
    return session->read_some(count, socket, to, size);
  }
  network::rw_state write_some(std::size_t& count, network::native_socket socket, const void* from,
                               std::size_t size) {
    return session->write_some(count, socket, from, size);
  }
  bool must_read_more(network::native_socket socket, std::size_t wanted) {
    return session->must_read_more(socket, wanted);
  }
};

class TlsScribe final : public caf::io::scribe {
public:
  TlsScribe(network::default_multiplexer& multiplexer, int socket, ThroughSession through)
      : scribe(network::conn_hdl_from_socket(socket)),
        stream_(multiplexer, socket, std::move(through)) {}

  void configure_read(caf::io::receive_policy::config how) override {
    stream_.configure_read(how);
    if (launched_)
      return;
    launched_ = true;
    stream_.start(this);
    stream_.force_empty_write(this); // The handshake may have something to write first.
  }
  void ack_writes(bool wanted) override { stream_.ack_writes(wanted); }
  std::vector<char>& wr_buf() override { return stream_.wr_buf(); }
  std::vector<char>& rd_buf() override { return stream_.rd_buf(); }
  void graceful_shutdown() override {
    stream_.graceful_shutdown();
    detach(&stream_.backend(), false);
  }
  void flush() override { stream_.flush(this); }
  std::string addr() const override {
    const auto name = network::remote_addr_of_fd(stream_.fd());
    return name ? *name : "";
  }
  std::uint16_t port() const override {
    const auto number = network::remote_port_of_fd(stream_.fd());
    return number ? *number : 0;
  }
  void add_to_loop() override { stream_.activate(this); }
  void remove_from_loop() override { stream_.passivate(); }

private:
  bool launched_ = false;
  network::stream_impl<ThroughSession> stream_;
};

class TlsDoorman final : public network::doorman_impl {
public:
  using doorman_impl::doorman_impl;

  bool new_connection() override {
    if (detached())
      return false;
    auto& multiplexer = acceptor_.backend();
    const int socket = acceptor_.accepted_socket();
    network::nonblocking(socket, true); // A silent peer would hold up all others.
    auto session = caf::openssl::make_session(parent()->system(), socket, true);
    if (!session) {
      network::close_socket(socket);
      return false;
    }
    auto scribe = caf::make_counted<TlsScribe>(multiplexer, socket,
                                               ThroughSession{std::move(session), nullptr});
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    return doorman::new_connection(&multiplexer, handle);
  }
};

} // namespace

caf::io::scribe_ptr connected_with_tls(caf::actor_system& system, int socket,
                                       const ExpectedPeer& expected) {
  network::nonblocking(socket, true); // The handshake goes on in the loop.
  const auto peer = std::make_shared<const ExpectedPeer>(expected);
  auto session = std::make_unique<caf::openssl::session>(system);
  const bool begun = session->init();
  if (begun)
    expect_peer(*session, *peer);
  if (!begun || !session->try_connect(socket)) {
    network::close_socket(socket);
    return nullptr;
  }
  return caf::make_counted<TlsScribe>(multiplexer_of(system), socket,
                                      ThroughSession{std::move(session), peer});
}

caf::io::doorman_ptr listening_with_tls(caf::actor_system& system, int socket) {
  return caf::make_counted<TlsDoorman>(multiplexer_of(system), socket);
}

} // namespace paceline::nodes
