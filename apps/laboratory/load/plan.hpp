// The requests of a run, as options describe them.
#pragma once

#include "apps/laboratory/load/workload.hpp"

#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::load {

struct PlanOptions {
  std::optional<int> requests; ///< Default: all of a file, else limits::requests.
  std::optional<double> rate;  ///< A second; may be infinite. Default: a trace's own, else that.
  double burstiness = 1;       ///< As for draw_gaps.
  Lengths mean{128, 64};       ///< Where no file says them.
  double range_ratio = 0;      ///< As for draw_lengths.
  std::string prompts_file;    ///< As for read_prompts; empty: prompts are cut from a pool.
  std::string trace_file;      ///< As for read_trace; empty: lengths and arrivals are drawn.
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

  /// By growing arrival. rate: in place of the options'. round: prompts of another round differ, so
  /// that the one before left nothing of them in a prefix cache. pool: null where none is needed.
  std::vector<Item> items(const PromptPool* pool, std::optional<double> rate = {},
                          int round = 0) const;

private:
  std::vector<double> arrivals(std::optional<double> rate) const;

  PlanOptions options_;
  std::vector<WrittenPrompt> written_; ///< Of a file.
  std::vector<Lengths> lengths_;
  std::vector<double> traced_; ///< A trace's arrivals; empty: none.
};

} // namespace paceline::apps::load
