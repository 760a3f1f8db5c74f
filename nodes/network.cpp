#include "nodes/network.hpp"

#include "base/localhost.hpp"
#include "base/parse_number.hpp"
#include "nodes/tls.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <caf/io/middleman.hpp>
#include <caf/openssl/manager.hpp>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

namespace paceline::nodes {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

bool with_tls(const NodeTls& tls) {
  return !tls.certificate.empty();
}

/// Returns the first addresses of the host.
Result<tcp::resolver::results_type> resolve(asio::io_context& io, const Endpoint& endpoint) {
  if (auto here = base::localhost(endpoint.host, endpoint.port))
    return *here;
  error_code wrong;
  tcp::resolver resolver(io);
  auto found = resolver.resolve(endpoint.host, std::to_string(endpoint.port), wrong);
  if (wrong)
    return fail(ErrorCode::unavailable,
                fmt::format("there is no host {} ({})", endpoint.host, wrong.message()),
                "give its name or address");
  return found;
}

Result<void> check_secret(const tcp::endpoint& end, const NodeTls& tls) {
  if (with_tls(tls) || end.address().is_loopback())
    return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is another machine's address or open to others, and without "
                          "certificates everybody there could read and write",
                          end.address().to_string()),
              "make certificates with paceline node --make-certificates DIR and give them at both "
              "ends, or use 127.0.0.1");
}

} // namespace

std::string Endpoint::text() const {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

Result<Endpoint> parse_endpoint(const std::string& field, std::string_view text) {
  const auto colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  const std::string_view digits = colon == text.npos ? "" : text.substr(colon + 1);
  const auto port = base::parse_number<std::uint16_t>(digits);
  if (!port || host.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", field, text),
                "give HOST:PORT, such as 127.0.0.1:7000");
  return Endpoint{std::string(host), *port};
}

Result<NodeAddress> parse_node_address(const std::string& field, std::string_view text) {
  const std::string_view rest = text.substr(actors::node_prefix.size());
  const auto slash = rest.find('/');
  return parse_endpoint(field, rest.substr(0, slash)).map([&](Endpoint&& endpoint) {
    return NodeAddress{std::move(endpoint),
                       slash == rest.npos ? "" : std::string(rest.substr(slash + 1))};
  });
}

Result<void> check_tls(const NodeTls& files) {
  const int given =
      int(!files.certificate.empty()) + int(!files.key.empty()) + int(!files.authority.empty());
  if (given == 0)
    return {};
  if (given < 3)
    return fail(ErrorCode::invalid_argument,
                "TLS between machines needs a certificate, its key and the authority of both",
                "give all three; paceline node --make-certificates DIR makes them");
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_method()),
                                                             SSL_CTX_free);
  const auto unusable = [](const std::string& file) {
    ERR_clear_error();
    return fail(ErrorCode::invalid_argument, "cannot use " + file + " for TLS",
                "give a PEM file that this user may read, and a key that is its certificate's");
  };
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1)
    return unusable(files.certificate);
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1)
    return unusable(files.key);
  if (SSL_CTX_load_verify_locations(context.get(), files.authority.c_str(), nullptr) != 1)
    return unusable(files.authority);
  return {};
}

Result<SocketDescriptor> dial(const Endpoint& to, const NodeTls& tls,
                              std::chrono::milliseconds limit) {
  asio::io_context io;
  const auto found = resolve(io, to);
  if (!found)
    return tl::unexpected(found.error());
  tcp::socket socket(io);
  std::optional<error_code> ended;
  tcp::endpoint reached;
  asio::async_connect(socket, *found, [&](const error_code& wrong, const tcp::endpoint& end) {
    ended = wrong;
    reached = end;
  });
  io.run_for(limit);
  if (!ended || *ended)
    return fail(ErrorCode::unavailable,
                fmt::format("no connection to {} ({})", to.text(),
                            ended ? ended->message() : "nobody answers"),
                "start paceline node there, and see that nothing is in between");
  if (auto secret = check_secret(reached, tls); !secret)
    return tl::unexpected(secret.error());
  return socket.release();
}

Result<Listening> listen_at(const Endpoint& at, const NodeTls& tls) {
  asio::io_context io;
  const auto found = resolve(io, at);
  if (!found)
    return tl::unexpected(found.error());
  const tcp::endpoint end = found->begin()->endpoint();
  if (auto secret = check_secret(end, tls); !secret)
    return tl::unexpected(secret.error());
  tcp::acceptor acceptor(io);
  error_code wrong;
  acceptor.open(end.protocol(), wrong);
  if (!wrong)
    acceptor.set_option(tcp::acceptor::reuse_address(true), wrong);
  if (!wrong)
    acceptor.bind(end, wrong);
  if (!wrong)
    acceptor.listen(asio::socket_base::max_listen_connections, wrong);
  if (wrong)
    return fail(ErrorCode::unavailable,
                fmt::format("cannot listen at {} ({})", at.text(), wrong.message()),
                "give another port, or an address of this machine");
  const std::uint16_t port = acceptor.local_endpoint().port();
  return Listening{acceptor.release(), port};
}

void add_network(caf::actor_system_config& config, const NodeTls& tls) {
  config.load<caf::io::middleman>();
  if (!with_tls(tls))
    return;
  config.load<caf::openssl::manager>();
  config.openssl_certificate = tls.certificate;
  config.openssl_key = tls.key;
  config.openssl_cafile = tls.authority;
}

} // namespace paceline::nodes
