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

/// Threads: its io_context's, which must be one; `open` and `drain` may be posted to it.
class Server {
public:
  explicit Server(boost::asio::io_context& io) : io_(io), farewell_(io) {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  /// Reads keys and certificate, binds the addresses. What cannot be is an error that says how to
  /// mend it.
  Result<void> bind(const Settings& settings);
  std::uint16_t port() const;
  /// "http://127.0.0.1:8000"
  std::string address() const;
  /// Of gRPC; 0 and "" where it is not served. "grpc://127.0.0.1:8001", or "grpcs://".
  std::uint16_t grpc_port() const;
  std::string grpc_address() const;
  /// Accepts connections; requests that need the engine are told 503 until `open`.
  void start();
  /// engine: must outlive the io_context's run.
  void open(Engine& engine);
  /// Loads the models of a plan, and takes requests as soon as each of them is there or has failed.
  /// opened: called then with the number of engines; of none, nothing is opened.
  void open(const FleetPlan& plan, OpenEngine open_engine, std::function<void(std::size_t)> opened);

  /// Lets what runs finish, for as long as the settings say; refuses what is new. Then closes
  /// everything, so that the io_context has nothing left to do. Again: does not wait any more.
  /// closed: called once everything is.
  void drain(std::function<void()> closed = {});
  /// Reads keys and certificate again, for requests and connections that come from now on. What
  /// cannot be used is told in the log, and stays as it was; false then.
  bool reload();
  /// Closes everything now.
  void stop();
  Service& service() { return *service_; }

private:
  using Acceptor = boost::asio::ip::tcp::acceptor;

  struct Listener {
    Acceptor acceptor;
    Protocol protocol;
    std::optional<Clock::time_point> told = {}; ///< When the log said so last, ...
    int failures = 0;                           ///< ... and what could not be accepted since then.
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
  std::shared_ptr<GrpcPort> grpc_; ///< For connections that come from now on; null: not served.
  std::function<void()> closed_;
  bool draining_ = false;
  bool stopped_ = false;
};

} // namespace paceline::apps::serve
