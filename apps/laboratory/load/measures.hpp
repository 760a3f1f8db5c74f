// Figures of a run, computed from its records: rates, and distributions of latencies.
#pragma once

#include "apps/laboratory/load/generator.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::load {

/// Latencies, as vLLM's benchmark defines and names them.
enum class Latency {
  ttft, ///< Time to first token, from when the request was sent.
  tpot, ///< Time per output token: first tokens to last, over the tokens after the first.
  itl,  ///< Inter-token latency: time between two parts of an answer.
  e2el, ///< End-to-end latency.
};
inline constexpr std::array all_latencies{Latency::ttft, Latency::tpot, Latency::itl,
                                          Latency::e2el};
const char* to_string(Latency latency) noexcept; ///< "ttft"
/// Reads "ttft" and the like; also "tbt", the papers' name for itl. None: the name is no latency.
std::optional<Latency> parse_latency(std::string_view name);

/// Values and their statistics, which are 0 if there are none.
class Distribution {
public:
  Distribution() = default;
  explicit Distribution(std::vector<double> values);

  const std::vector<double>& sorted() const { return sorted_; }
  double mean() const;
  double deviation() const; ///< Deviation of the whole population, not of a sample.
  /// Returns a quantile, by linear interpolation between the two nearest values. share: 0 to 1.
  double quantile(double share) const;

private:
  std::vector<double> sorted_;
};

/// A bound on a latency that a good request keeps.
struct LatencyLimit {
  Latency latency = Latency::ttft;
  double seconds = 0;
};

struct Figures {
  int completed = 0;
  int failed = 0;
  double seconds = 0; ///< Duration of the whole run.
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  double peak_output_throughput = 0; ///< Tokens in the best of the run's seconds.
  int peak_requests = 0;             ///< Most requests under way at once.
  std::optional<int> good;           ///< Completed within all limits, if there were any.
  std::array<Distribution, all_latencies.size()> latencies; ///< Seconds.
  std::map<std::string, int> failures;                      ///< Counts by reason.
  std::uint64_t rounds = 0; ///< Target steps of completed requests, each counted for itself.

  const Distribution& of(Latency latency) const { return latencies[std::size_t(latency)]; }
  /// Returns `count` over the run's time.
  double per_second(double count) const { return seconds > 0 ? count / seconds : 0; }
};

Figures measure(const Run& run, const std::vector<LatencyLimit>& limits = {});

} // namespace paceline::apps::load
