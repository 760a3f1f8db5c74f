// The text of /metrics, in Prometheus' format: vLLM's names where the meaning is the same, and
// paceline_* for what only this engine has.
#pragma once

#include "paceline/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::apps::serve {

/// Counts of the requests that went through one engine. Durations are in seconds.
class ModelMetrics {
public:
  /// model: the label model_name. number: the label engine.
  ModelMetrics(std::string model, int number);
  ~ModelMetrics();

  void first_token(double after);
  /// Counts `count` tokens that came `after` the previous ones.
  void more_tokens(double after, std::size_t count);
  /// reason: vLLM's "stop", "length" or "abort", and "error".
  void finished(const Finished& end, double took);

private:
  friend class ServerMetrics;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Counts of all requests to the server.
class ServerMetrics {
public:
  /// model: the label model_name if only one model is served; else empty.
  explicit ServerMetrics(std::string model);
  ~ServerMetrics();

  /// Counts an HTTP request that was answered with this status.
  void answered(unsigned status);
  /// Counts a gRPC request. outcome: "accepted", or the code of the error that refused it.
  void submitted(const std::string& outcome);

  struct Open {
    int connections = 0; ///< HTTP connections.
    int requests = 0;    ///< HTTP requests that are being answered.
    int grpc_connections = 0;
    int grpc_requests = 0;
    std::size_t request_memory = 0; ///< Bytes.
  };
  /// One engine's counts of requests, and its own metrics now.
  struct Of {
    const ModelMetrics* requests;
    Metrics engine;
  };
  /// Metrics that only a placement has.
  struct Placed {
    struct Queue {
      std::string devices;
      double seconds;
      std::size_t running;
    };
    std::vector<Queue> queues;
    std::vector<std::pair<std::string, double>> late; ///< Counts of late requests, by model.
    std::vector<std::pair<std::string, double>>
        moves; ///< "load", "unload", "failed_load", "replan"
  };
  /// placed: none where one engine serves.
  std::string text(const std::vector<Of>& engines, const Open& open, const Placed* placed) const;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace paceline::apps::serve
