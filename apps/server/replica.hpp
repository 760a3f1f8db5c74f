// One engine that serves a model, and what requests need to know of it.
#pragma once

#include "apps/console/chat/chat_style.hpp"
#include "apps/server/metrics.hpp"
#include "paceline/engine.hpp"

#include <memory>
#include <string>

namespace paceline::apps::serve {

/// Returns a sentence on how many requests of full length an engine has room for at a time.
std::string capacity_of(const Engine& engine);

/// One engine and its counts. Threads: the server's only; the engine itself is for all.
class Replica {
public:
  /// model: the name in the metrics. number: the engine's number there. parsers: what the operator
  /// chose.
  Replica(std::string model, int number, std::shared_ptr<Engine> engine,
          const ParserNames& parsers = {});

  const std::string& model() const { return model_; }
  Engine& engine() const { return *engine_; }
  /// Returns the number of ids, which begin at 0.
  int vocabulary() const { return vocabulary_; }
  int max_model_len() const { return max_model_len_; }
  /// Returns the settings that decide on bits: version, device, kernel, number format.
  const std::string& fingerprint() const { return fingerprint_; }
  const ChatStyle& chat_style() const { return chat_style_; }
  ModelMetrics& metrics() { return metrics_; }
  const ModelMetrics& metrics() const { return metrics_; }

  /// Notes whether the engine said that it can go on.
  void note_health(bool well) { well_ = well; }
  bool well() const { return well_; }

private:
  std::string model_;
  std::shared_ptr<Engine> engine_;
  int vocabulary_;
  int max_model_len_;
  std::string fingerprint_;
  ChatStyle chat_style_;
  ModelMetrics metrics_;
  bool well_ = true;
};

} // namespace paceline::apps::serve
