// The server's life: bind, accept, drain.
#pragma once

#include "apps/server/service.hpp"
#include "apps/server/settings.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace paceline::apps::serve {

class Connection;
class GrpcPort;

/// The server from the binding of its addresses to its end. Threads: its io_context's, which must
/// be one; `open` and `drain` may be posted to it.
class Server {
public:
  explicit Server(boost::asio::io_context& io) : io_(io), farewell_(io) {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  /// Reads keys and certificate, and binds the addresses. An error says how to mend it.
  Result<void> bind(const Settings& settings);
  std::uint16_t port() const;
  /// Returns the first address, such as "http://127.0.0.1:8000".
  std::string address() const;
  /// These return gRPC's; 0 and "" if it is not served. "grpc://127.0.0.1:8001", or "grpcs://".
  std::uint16_t grpc_port() const;
  std::string grpc_address() const;
  /// Accepts connections; requests that need the engine are told 503 until `open`.
  void start();
  /// engine: must outlive the io_context's run.
  void open(Engine& engine);
  /// Loads the models of a plan, and takes requests as soon as each of them is there or has failed.
  /// opened: then called with the number of engines; if that is 0, nothing is opened.
  void open(const FleetPlan& plan, OpenEngine open_engine, std::function<void(std::size_t)> opened);

  /// Lets what runs finish, for as long as the settings allow, and refuses what is new. Then closes
  /// everything, so that the io_context has nothing left to do. A second call ends the wait.
  /// closed: called once everything is.
  void drain(std::function<void()> closed = {});
  /// Reads keys and certificate again, for requests and connections that come from now on. If
  /// something cannot be used, the log says so, it stays as it was, and the function returns false.
  bool reload();
  /// Closes everything now.
  void stop();
  Service& service() { return *service_; }

private:
  using Acceptor = boost::asio::ip::tcp::acceptor;

  struct Listener {
    Acceptor acceptor;
    Protocol protocol;
    std::optional<Clock::time_point> told = {}; ///< Last time that the log reported failures.
    int failures = 0;                           ///< Connections not accepted since then.
  };

  Result<void> listen(const Settings& settings, Protocol protocol, std::uint16_t port);
  Result<void> listen(const boost::asio::ip::tcp::endpoint& endpoint, Protocol protocol);
  boost::asio::awaitable<void> accept(Listener& listener);
  void note_failure(Listener& listener, boost::system::error_code why);
  void take(boost::asio::ip::tcp::socket socket, Protocol protocol);
  boost::asio::awaitable<void> run(boost::asio::ip::tcp::socket socket, bool full);
  void open_grpc();
  void renew_grpc();
  const Acceptor* first(Protocol protocol) const;
  void give_up();

  boost::asio::io_context& io_;
  boost::asio::steady_timer farewell_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<boost::asio::ssl::context> tls_;
  std::vector<Listener> listeners_;
  std::set<Connection*> connections_;
  std::shared_ptr<GrpcPort> grpc_; ///< Takes new connections; null: gRPC is not served.
  std::function<void()> closed_;
  bool draining_ = false;
  bool stopped_ = false;
};

} // namespace paceline::apps::serve
