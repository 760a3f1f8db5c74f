// Puts a workload on a target and writes down what came back, and when.
#pragma once

#include "apps/laboratory/load/target.hpp"

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::load {

/// One request as its client saw it. Seconds from the start of the run.
struct Record {
  enum class State { waiting, sent, completed, failed };
  State state = State::waiting;
  double sent = 0;
  double first = 0;         ///< When its first tokens came,
  double last = 0;          ///< and its last ones.
  double ended = 0;         ///< When it was over.
  int parts = 0;            ///< Of its answer; each brought one token or more.
  std::vector<double> gaps; ///< Between them.
  int prompt_tokens = 0;
  int output_tokens = 0;
  std::uint64_t rounds = 0;
  std::string reason; ///< Why it failed.
};

/// Of the target, over the time of a run.
struct QueueLengths {
  double mean_waiting = 0;
  double max_waiting = 0;
  double mean_running = 0;
  double max_running = 0;
};

struct Run {
  std::vector<Record> records; ///< One per item.
  double seconds = 0;          ///< To the last end.
  int peak_sent = 0;           ///< Most requests under way at once.
  bool interrupted = false;
  std::optional<QueueLengths> queues;
  std::optional<TargetState> counters; ///< What they grew by; lengths at the end.
};

struct LoadOptions {
  int max_concurrency = 0; ///< More requests wait here until they are sent; 0: none does.
  std::function<void(std::size_t)> progress; ///< Given how many have ended; may be empty.
};

/// items: by growing arrival. stopped: set by another thread, which then calls `wake`: what is not
/// over is given up.
Run put_load(Target& target, const std::vector<Item>& items, const LoadOptions& options,
             const std::atomic<bool>& stopped);

} // namespace paceline::apps::load
