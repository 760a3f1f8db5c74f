// What /metrics says, in Prometheus' text format: vLLM's names where the meaning is the same, and
// paceline_* for what only this engine has.
#pragma once

#include "paceline/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::apps::serve {

/// Of the requests that went through one engine. Durations in seconds.
class ModelMetrics {
public:
  /// model: the label model_name. number: the label engine.
  ModelMetrics(std::string model, int number);
  ~ModelMetrics();

  void first_token(double after);
  /// So many tokens came `after` the ones before.
  void more_tokens(double after, std::size_t count);
  /// reason: vLLM's "stop", "length" or "abort", and "error".
  void finished(const Finished& end, double took);

private:
  friend class ServerMetrics;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Of all that the server was asked.
class ServerMetrics {
public:
  /// model: the label model_name, where only one is served; else empty.
  explicit ServerMetrics(std::string model);
  ~ServerMetrics();

  /// An HTTP request was answered with this status.
  void answered(unsigned status);
  /// A request by gRPC was "accepted", or refused with an error's code.
  void submitted(const std::string& outcome);

  struct Open {
    int connections = 0; ///< HTTP's.
    int requests = 0;    ///< Being answered.
    int grpc_connections = 0;
    int grpc_requests = 0;
    std::size_t request_memory = 0; ///< Bytes.
  };
  /// An engine, and what it says of itself now.
  struct Of {
    const ModelMetrics* requests;
    Metrics engine;
  };
  /// What a placement adds.
  struct Placed {
    struct Queue {
      std::string devices;
      double seconds;
      std::size_t running;
    };
    std::vector<Queue> queues;
    std::vector<std::pair<std::string, double>> late; ///< Requests, by model.
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
