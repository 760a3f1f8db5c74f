// One engine that serves a model, and what requests need to know of it.
#pragma once

#include "apps/server/metrics.hpp"
#include "paceline/engine.hpp"

#include <memory>
#include <string>

namespace paceline::apps::serve {

/// How many requests of its full length an engine has room for at a time, as a sentence.
std::string capacity_of(const Engine& engine);

/// Threads: the server's only; the engine itself is for all.
class Replica {
public:
  /// model: the name that metrics say. number: likewise, which of the engines it is.
  Replica(std::string model, int number, std::shared_ptr<Engine> engine);

  const std::string& model() const { return model_; }
  Engine& engine() const { return *engine_; }
  /// Ids go from 0 to below it.
  int vocabulary() const { return vocabulary_; }
  int max_model_len() const { return max_model_len_; }
  /// Identifies what decides on bits: version, device, kernel, number format.
  const std::string& fingerprint() const { return fingerprint_; }
  ModelMetrics& metrics() { return metrics_; }
  const ModelMetrics& metrics() const { return metrics_; }

  /// The engine said that it cannot go on, or that it can.
  void note_health(bool well) { well_ = well; }
  bool well() const { return well_; }

private:
  std::string model_;
  std::shared_ptr<Engine> engine_;
  int vocabulary_;
  int max_model_len_;
  std::string fingerprint_;
  ModelMetrics metrics_;
  bool well_ = true;
};

} // namespace paceline::apps::serve
