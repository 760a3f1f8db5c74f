// A server in this process, on a port of its own.
#pragma once

#include "apps/server/server.hpp"
#include "paceline/engine.hpp"
#include "tests/serve/http_client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <thread>

namespace paceline::testing {

/// The demo pair on the processor.
EngineOptions demo_pair();
/// A scripted model that goes on and on, and costs next to nothing; `device` may make it slow.
EngineOptions scripted(const std::string& device = "cpu");

class LiveServer {
public:
  explicit LiveServer(EngineOptions engine = demo_pair(),
                      const apps::serve::Settings& settings = {});
  /// What still runs is told so, and cut off.
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  std::uint16_t port() const { return port_; }
  /// Returns the port of gRPC.
  std::uint16_t grpc_port() const { return grpc_port_; }
  Engine& engine() { return engine_; }
  HttpReply ask(const std::string& method, const std::string& target, const std::string& body = {},
                const HttpClient::Headers& headers = {}) const;
  boost::json::object post(const std::string& target, const boost::json::object& body) const;
  /// The value of the first line of /metrics that begins so; the test fails without one.
  double metric(const std::string& name) const;
  /// Asks until nothing of a request is left in engine and server.
  void await_idle();

  /// Processor time that the server's thread has used.
  double thread_seconds();

  /// Does what SIGHUP does; it is done when this returns.
  void reload();
  /// Does what SIGTERM does.
  void drain();
  /// Waits for the end of a drain.
  void join();

private:
  boost::asio::io_context io_{1};
  apps::serve::Server server_;
  Engine engine_;
  std::uint16_t port_ = 0;
  std::uint16_t grpc_port_ = 0;
  std::thread thread_;
};

} // namespace paceline::testing
