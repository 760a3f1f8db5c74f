// What /metrics says, in Prometheus' text format: vLLM's names where the meaning is the same, and
// paceline_* for what only this engine has.
#pragma once

#include "paceline/engine.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace paceline::apps::serve {

/// Of the requests that went through the server. Durations in seconds.
class ServerMetrics {
public:
  /// model: the label model_name.
  explicit ServerMetrics(std::string model);
  ~ServerMetrics();

  void first_token(double after);
  /// So many tokens came `after` the ones before.
  void more_tokens(double after, std::size_t count);
  /// reason: vLLM's "stop", "length" or "abort", and "error".
  void finished(const Finished& end, double took);
  /// An HTTP request was answered with this status.
  void answered(unsigned status);
  /// A request over TCP was "accepted", or it or its connection was refused with an error's code.
  void submitted(const std::string& outcome);

  struct Open {
    int connections = 0; ///< HTTP's.
    int requests = 0;    ///< Being answered.
    int tcp_connections = 0;
    int tcp_requests = 0;
    std::size_t request_memory = 0; ///< Bytes.
  };
  /// engine: what it says of itself now.
  std::string text(const Metrics& engine, const Open& open) const;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace paceline::apps::serve
