// Puts a workload on a target, and records the answers and their times.
#pragma once

#include "apps/laboratory/load/target.hpp"

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::load {

/// One request as its client saw it. Times are seconds from the start of the run.
struct Record {
  enum class State { waiting, sent, completed, failed };
  State state = State::waiting;
  double sent = 0;
  double first = 0;         ///< Time of its first tokens.
  double last = 0;          ///< Time of its last tokens.
  double ended = 0;         ///< Time at which it was over.
  int parts = 0;            ///< Parts of its answer; each brought one token or more.
  std::vector<double> gaps; ///< Seconds between two parts.
  int prompt_tokens = 0;
  int output_tokens = 0;
  std::uint64_t rounds = 0;
  std::string reason; ///< Why it failed.
};

/// Lengths of the target's queues over the time of a run.
struct QueueLengths {
  double mean_waiting = 0;
  double max_waiting = 0;
  double mean_running = 0;
  double max_running = 0;
};

struct Run {
  std::vector<Record> records; ///< One per item.
  double seconds = 0;          ///< Time of the last end.
  int peak_sent = 0;           ///< Most requests under way at once.
  bool interrupted = false;
  std::optional<QueueLengths> queues;
  std::optional<TargetState> counters; ///< Growth of the counters, and lengths at the end.
};

struct LoadOptions {
  int max_concurrency = 0; ///< Most requests under way; the others wait to be sent. 0: no limit.
  std::function<void(std::size_t)> progress; ///< Gets the number that have ended; may be empty.
};

/// Sends the items and records what comes back. items: by growing arrival. stopped: set by another
/// thread, which then calls `wake`; requests that are not over are then given up.
Run put_load(Target& target, const std::vector<Item>& items, const LoadOptions& options,
             const std::atomic<bool>& stopped);

} // namespace paceline::apps::load
