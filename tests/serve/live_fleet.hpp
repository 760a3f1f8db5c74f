// A server of several scripted models in this process.
#pragma once

#include "apps/server/server.hpp"
#include "tests/serve/http_client.hpp"

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace paceline::testing {

/// So many models "a", "b", ... that take a unit of memory each, on devices "d0", "d1", ... of
/// `room` units; on_devices: the models of each device.
apps::serve::FleetPlan fleet_plan(int models, int room,
                                  const std::vector<std::vector<int>>& on_devices);

class LiveFleet {
public:
  /// device: what every engine really runs on, such as "sim:1ms".
  explicit LiveFleet(const apps::serve::FleetPlan& plan, const apps::serve::Settings& settings = {},
                     std::string device = "sim:1ms");
  ~LiveFleet();
  LiveFleet(const LiveFleet&) = delete;
  LiveFleet& operator=(const LiveFleet&) = delete;

  std::uint16_t port() const { return port_; }
  std::uint16_t grpc_port() const { return grpc_port_; } ///< If the settings have one.
  HttpReply ask(const std::string& method, const std::string& target, const std::string& body = {},
                const HttpClient::Headers& headers = {}) const;
  /// POST with the admin's key, which is "admin".
  HttpReply manage(const std::string& target, const std::string& body) const;
  /// The models of /v1/models, each with its devices: "a:d0,d1 b:".
  std::string models() const;
  void await_models(const std::string& wanted) const;
  /// The value of the line of /metrics that begins so; 0 without one.
  double metric(const std::string& name) const;

  /// The engine that was opened last: "a on d0+d1, 7 bytes of each".
  std::string last_opened() const;
  /// A model's engine ends, as one does that cannot go on.
  void end_engine(const std::string& model);
  /// Checkpoints that cannot be opened from now on.
  void break_checkpoints(std::set<std::string> broken);
  /// No engine is opened from now on, until `release`.
  void hold();
  void release();
  /// Waits until somebody waits for an engine to be opened.
  void await_opening();
  void change(const apps::serve::FleetPlan& plan);
  /// Does what SIGTERM does.
  void drain();
  void join();

private:
  Result<Engine> open(const apps::serve::FleetModel& model, const std::vector<std::string>& devices,
                      int shards, std::uint64_t memory_bytes);

  boost::asio::io_context io_{1};
  apps::serve::Server server_;
  std::string device_;
  std::uint16_t port_ = 0;
  std::uint16_t grpc_port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> broken_;
  bool held_ = false;
  bool opening_ = false;
  std::string last_opened_;
  std::thread thread_;
};

} // namespace paceline::testing
