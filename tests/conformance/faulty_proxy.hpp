// A proxy between the suite and a server that commits one fault.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace paceline::testing {

/// A request on its way.
struct Exchange {
  boost::json::object request; ///< What the client asked for; what is left in it the server gets.
  int number = 0;              ///< How many came before, of any kind.
  int times = 0;               ///< How often the very same one came before.
  bool alone = true;           ///< Whether no other was under way when it came.
  int events = 0;              ///< Of a stream: events that went through.
  std::optional<unsigned> refusal; ///< The client is told this status, and the server nothing.

  bool has(const char* field) const { return request.contains(field); }
  bool streams() const;
};

struct Fault {
  std::string name;
  std::string caught_by;                 ///< Path of the check.
  std::function<void(Exchange&)> before; ///< Changes what the server gets; may be empty.
  /// Changes a whole answer, or an event of a stream; may be empty.
  std::function<void(Exchange&, boost::json::object&)> after;
};

/// A thread for each connection; a fault's functions are called by one at a time.
class FaultyProxy {
public:
  FaultyProxy(std::uint16_t server, Fault fault);
  ~FaultyProxy();
  FaultyProxy(const FaultyProxy&) = delete;
  FaultyProxy& operator=(const FaultyProxy&) = delete;

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

private:
  using Socket = boost::asio::ip::tcp::socket;
  /// A client's connection, and the one to the server that stands for it.
  struct Connection {
    explicit Connection(Socket from) : client(std::move(from)), server(client.get_executor()) {}
    Socket client;
    Socket server;
    std::thread thread;
  };
  void accept();
  void serve(Connection& connection);
  Exchange begin(const std::string& body);
  std::string changed(Exchange& exchange, const std::string& body);
  std::string changed_events(Exchange& exchange, const std::string& body);

  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::uint16_t server_;
  Fault fault_;
  std::mutex mutex_; ///< Of all below.
  int number_ = 0;
  int under_way_ = 0;
  std::map<std::string, int> times_;
  bool closing_ = false;
  std::list<Connection> connections_;
  std::thread thread_;
};

} // namespace paceline::testing
