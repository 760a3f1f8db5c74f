// The requests of a run, as options describe them.
#pragma once

#include "apps/laboratory/load/workload.hpp"

#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::load {

struct PlanOptions {
  std::optional<int> requests; ///< Default: all of a file, or else limits::requests.
  std::optional<double> rate; ///< A second; may be infinite. Default: a trace's own, else infinite.
  double burstiness = 1;      ///< The same as for draw_gaps.
  Lengths mean{128, 64};      ///< Used if no file gives lengths.
  double range_ratio = 0;     ///< The same as for draw_lengths.
  std::string prompts_file;   ///< Read by read_prompts; empty: prompts are cut from a pool.
  std::string trace_file;     ///< Read by read_trace; empty: lengths and arrivals are drawn.
  std::uint64_t seed = 0;
};

class Plan {
public:
  /// Reads the files.
  static Result<Plan> load(PlanOptions options);

  std::size_t size() const { return lengths_.size(); }
  /// Whether prompts are cut from a pool.
  bool needs_pool() const { return written_.empty(); }
  double rate() const; ///< Infinite: all at once, or as the trace has them.

  /// Returns the requests by growing arrival. rate: replaces the options'. round: prompts of
  /// another round differ, so that the round before left nothing of them in a prefix cache. pool:
  /// null if none is needed.
  std::vector<Item> items(const PromptPool* pool, std::optional<double> rate = {},
                          int round = 0) const;

private:
  std::vector<double> arrivals(std::optional<double> rate) const;

  PlanOptions options_;
  std::vector<WrittenPrompt> written_; ///< Prompts of a file.
  std::vector<Lengths> lengths_;
  std::vector<double> traced_; ///< A trace's arrivals; empty: none.
};

} // namespace paceline::apps::load
