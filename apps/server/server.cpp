#include "apps/server/server.hpp"

#include "apps/server/connection.hpp"
#include "apps/server/grpc_port.hpp"
#include "apps/server/tls.hpp"
#include "apps/server/transport.hpp"
#include "base/localhost.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <exception>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr const char* admin_variable = "PACELINE_ADMIN_KEY";

std::string name_of(const tcp::endpoint& endpoint) {
  const bool six = endpoint.address().is_v6();
  return fmt::format("{}{}{}:{}", six ? "[" : "", endpoint.address().to_string(), six ? "]" : "",
                     endpoint.port());
}

tl::unexpected<Error> cannot_bind(const tcp::endpoint& endpoint, Protocol protocol,
                                  error_code why) {
  const std::string option = protocol == Protocol::http ? "--port" : "--grpc-port";
  std::string hint = "choose another --host or " + option;
  if (why == asio::error::address_in_use)
    hint = "another program uses it: stop that, or choose another " + option;
  else if (why == asio::error::access_denied)
    hint = "ports below 1024 are for root: choose another " + option;
  return fail(ErrorCode::invalid_argument,
              fmt::format("cannot listen on {} ({})", name_of(endpoint), why.message()), hint);
}

} // namespace

Server::~Server() = default;

Result<void> Server::bind(const Settings& settings) {
  auto keys = Keys::load(settings.api_key_file);
  if (!keys)
    return tl::unexpected(std::move(keys.error()));
  auto admin = Keys::load(settings.admin_key_file, admin_variable);
  if (!admin)
    return tl::unexpected(std::move(admin.error()));
  if (!settings.tls_certificate.empty() || !settings.tls_key.empty()) {
    auto tls = open_tls(settings.tls_certificate, settings.tls_key);
    if (!tls)
      return tl::unexpected(std::move(tls.error()));
    tls_ = std::move(*tls);
  }
  if (auto bound = listen(settings, Protocol::http, settings.port); !bound)
    return bound;
  if (settings.grpc_port)
    if (auto bound = listen(settings, Protocol::grpc, *settings.grpc_port); !bound)
      return bound;
  service_ =
      std::make_unique<Service>(io_.get_executor(), settings, std::move(*keys), std::move(*admin));
  if (settings.grpc_port)
    open_grpc();
  return {};
}

void Server::open_grpc() {
  grpc_ = std::make_shared<GrpcPort>(*service_);
  service_->on_change([this] { grpc_->tell_health(); });
}

/// Reads the certificate again for connections that come from now on. The others keep the one that
/// they began with, and idle ones are told to connect again.
void Server::renew_grpc() {
  const auto old = std::exchange(grpc_, nullptr);
  open_grpc();
  old->shut_down(std::chrono::hours(24 * 366));
}

Result<void> Server::listen(const Settings& settings, Protocol protocol, std::uint16_t port) {
  error_code unknown;
  const auto here = base::localhost(settings.host, port);
  const auto addresses = here ? *here
                              : tcp::resolver(io_).resolve(settings.host, std::to_string(port),
                                                           tcp::resolver::passive, unknown);
  if (unknown || addresses.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("there is no address {} ({})", settings.host, unknown.message()),
                "give --host a name or an address of this machine");
  for (const auto& entry : addresses) {
    if (auto bound = listen(entry.endpoint(), protocol); !bound)
      return bound;
    if (port == 0) // Each address would get a free port of its own.
      break;
  }
  return {};
}

Result<void> Server::listen(const tcp::endpoint& endpoint, Protocol protocol) {
  Acceptor acceptor(io_);
  error_code failed;
  acceptor.open(endpoint.protocol(), failed);
  if (!failed)
    acceptor.set_option(asio::socket_base::reuse_address(true), failed);
  if (!failed && endpoint.address().is_v6())
    acceptor.set_option(asio::ip::v6_only(true), failed); // 0.0.0.0 can then be bound beside ::.
  if (!failed)
    acceptor.bind(endpoint, failed);
  if (!failed)
    acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (failed)
    return cannot_bind(endpoint, protocol, failed);
  listeners_.push_back({.acceptor = std::move(acceptor), .protocol = protocol});
  return {};
}

const Server::Acceptor* Server::first(Protocol protocol) const {
  for (const Listener& listener : listeners_)
    if (listener.protocol == protocol)
      return &listener.acceptor;
  return nullptr;
}

std::uint16_t Server::port() const {
  return first(Protocol::http)->local_endpoint().port();
}

std::string Server::address() const {
  return (tls_ ? "https://" : "http://") + name_of(first(Protocol::http)->local_endpoint());
}

std::uint16_t Server::grpc_port() const {
  const Acceptor* acceptor = first(Protocol::grpc);
  return acceptor ? acceptor->local_endpoint().port() : 0;
}

std::string Server::grpc_address() const {
  const Acceptor* acceptor = first(Protocol::grpc);
  return acceptor ? (tls_ ? "grpcs://" : "grpc://") + name_of(acceptor->local_endpoint()) : "";
}

void Server::open(Engine& engine) {
  service_->fleet().open(service_->settings().model_names, engine);
  service_->open();
}

void Server::open(const FleetPlan& plan, OpenEngine open_engine,
                  std::function<void(std::size_t)> opened) {
  service_->fleet().open(plan, std::move(open_engine),
                         [this, opened = std::move(opened)](std::size_t engines) {
                           if (engines > 0)
                             service_->open();
                           opened(engines);
                         });
}

void Server::start() {
  for (Listener& listener : listeners_)
    asio::co_spawn(io_, accept(listener), asio::detached);
}

asio::awaitable<void> Server::accept(Listener& listener) {
  asio::steady_timer pause(io_);
  while (listener.acceptor.is_open()) {
    auto [failed, socket] = co_await listener.acceptor.async_accept(as_result);
    if (!failed) {
      take(std::move(socket), listener.protocol);
    } else if (failed != asio::error::operation_aborted &&
               failed != asio::error::connection_aborted) { // Out of files: wait for some.
      note_failure(listener, failed);
      pause.expires_after(limits::accept_pause);
      co_await pause.async_wait(as_result);
    }
  }
}

/// Logs a failure to accept: accepting may fail ten times a second, and the log says so once a
/// minute.
void Server::note_failure(Listener& listener, error_code why) {
  ++listener.failures;
  if (listener.told && Clock::now() - *listener.told < limits::accept_log_pause)
    return;
  service_->log().write(LogLevel::warning, "accept",
                        {{"error", why.message()}, {"times", listener.failures}});
  listener.told = Clock::now();
  listener.failures = 0;
}

bool Server::reload() {
  const Settings& settings = service_->settings();
  bool all = true;
  const auto failed = [&](const Error& error) {
    service_->log().write(LogLevel::error, "reload", {{"error", error.text()}});
    all = false;
  };
  if (auto keys = Keys::load(settings.api_key_file))
    service_->set_keys(std::move(*keys));
  else
    failed(keys.error());
  if (auto admin = Keys::load(settings.admin_key_file, admin_variable))
    service_->set_admin_keys(std::move(*admin));
  else
    failed(admin.error());
  if (tls_) {
    auto tls = open_tls(settings.tls_certificate, settings.tls_key);
    if (!tls) {
      failed(tls.error());
    } else {
      tls_ = std::move(*tls); // Connections keep the context that they began with.
      if (grpc_ && !stopped_)
        renew_grpc();
    }
  }
  return all;
}

/// Serves a new connection. If it is one too many, it is told so over HTTP, and closed where it
/// speaks gRPC.
void Server::take(tcp::socket socket, Protocol protocol) {
  const int most = service_->settings().max_connections;
  const bool full = service_->connections >= most;
  if (service_->connections >= 2 * most)
    return; // There is no room even to tell the client.
  if (protocol == Protocol::http)
    asio::co_spawn(io_, run(std::move(socket), full), asio::detached);
  else if (!full)
    grpc_->take(std::move(socket));
}

asio::awaitable<void> Server::run(tcp::socket socket, bool full) {
  const auto connection = std::make_shared<Connection>(std::move(socket), tls_.get(), *service_);
  connections_.insert(connection.get());
  try {
    if (full)
      co_await connection->turn_away();
    else
      co_await connection->run();
  } catch (const std::exception& error) { // The exception ends this connection only.
    service_->log().write(LogLevel::error, "exception", {{"what", error.what()}});
  }
  connections_.erase(connection.get());
}

void Server::drain(std::function<void()> closed) {
  if (std::exchange(draining_, true))
    return give_up();
  closed_ = std::move(closed);
  farewell_.expires_after(service_->settings().drain_timeout);
  farewell_.async_wait([this](error_code cancelled) {
    if (!cancelled)
      give_up();
  });
  service_->drain([this] { stop(); });
}

/// Cancels what still runs, and waits at most `limits::farewell_time` for the clients to be told.
void Server::give_up() {
  if (stopped_)
    return;
  service_->cancel_all();
  farewell_.expires_after(limits::farewell_time);
  farewell_.async_wait([this](error_code cancelled) {
    if (!cancelled)
      stop();
  });
}

void Server::stop() {
  stopped_ = true;
  service_->fleet().stop();
  farewell_.cancel();
  for (Listener& listener : listeners_) {
    error_code ignored;
    listener.acceptor.close(ignored);
  }
  for (Connection* connection : connections_)
    connection->close();
  if (grpc_)
    grpc_->shut_down(limits::farewell_time);
  if (closed_)
    std::exchange(closed_, nullptr)();
}

} // namespace paceline::apps::serve
