// The port that speaks gRPC (net/paceline.proto).
#pragma once

#include "apps/server/service.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>

namespace paceline::apps::serve {

/// A gRPC server that gets its connections from the server that accepts them, so that the ports of
/// HTTP and gRPC are bound, counted and closed alike. Threads: the server's.
class GrpcPort : public std::enable_shared_from_this<GrpcPort> {
public:
  /// service: must outlive this. Reads the certificate that its settings name, if any.
  explicit GrpcPort(Service& service);
  GrpcPort(const GrpcPort&) = delete;
  GrpcPort& operator=(const GrpcPort&) = delete;
  ~GrpcPort();

  void take(boost::asio::ip::tcp::socket socket);
  /// Sets the answer of the health service.
  void tell_health();
  /// Takes nothing more, and lets calls end. A call that has not ended within `grace` is cut off.
  /// Keeps itself, and the executor at work, until all is over.
  void shut_down(std::chrono::milliseconds grace);

private:
  struct Inside; // It keeps gRPC's headers out of this one.
  std::unique_ptr<Inside> inside_;
};

} // namespace paceline::apps::serve
