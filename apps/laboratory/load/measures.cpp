#include "apps/laboratory/load/measures.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

namespace paceline::apps::load {
namespace {

/// Returns the time per output token of a completed request.
double tpot(const Record& record) {
  return record.output_tokens > 1 ? (record.last - record.first) / double(record.output_tokens - 1)
                                  : 0;
}

double longest_gap(const Record& record) {
  return record.gaps.empty() ? 0 : *std::max_element(record.gaps.begin(), record.gaps.end());
}

/// Returns the record's largest value of that latency.
double latency_of(const Record& record, Latency latency) {
  switch (latency) {
  case Latency::ttft: return record.first - record.sent;
  case Latency::tpot: return tpot(record);
  case Latency::itl: return longest_gap(record);
  case Latency::e2el: return record.ended - record.sent;
  }
  return 0;
}

bool keeps(const Record& record, const std::vector<LatencyLimit>& limits) {
  return std::all_of(limits.begin(), limits.end(), [&](const LatencyLimit& limit) {
    return latency_of(record, limit.latency) <= limit.seconds;
  });
}

/// Counts tokens by the second they came in; those of one request are divided evenly over its
/// parts.
class SecondBuckets {
public:
  void add(const Record& record) {
    const double tokens = double(record.output_tokens) / record.parts;
    double at = record.first;
    add(at, tokens);
    for (const double gap : record.gaps)
      add(at += gap, tokens);
  }
  double peak() const {
    double most = 0;
    for (const auto& [second, tokens] : tokens_)
      most = std::max(most, tokens);
    return most;
  }

private:
  void add(double at, double tokens) { tokens_[std::floor(std::max(0.0, at))] += tokens; }
  std::map<double, double> tokens_; ///< Keys are seconds: a run may have long silences.
};

} // namespace

const char* to_string(Latency latency) noexcept {
  switch (latency) {
  case Latency::ttft: return "ttft";
  case Latency::tpot: return "tpot";
  case Latency::itl: return "itl";
  case Latency::e2el: return "e2el";
  }
  return "";
}

std::optional<Latency> parse_latency(std::string_view name) {
  if (name == "tbt")
    return Latency::itl;
  for (const Latency latency : all_latencies)
    if (name == to_string(latency))
      return latency;
  return std::nullopt;
}

Distribution::Distribution(std::vector<double> values) : sorted_(std::move(values)) {
  std::ranges::sort(sorted_);
}

double Distribution::mean() const {
  return sorted_.empty()
             ? 0
             : std::accumulate(sorted_.begin(), sorted_.end(), 0.0) / double(sorted_.size());
}

double Distribution::deviation() const {
  if (sorted_.empty())
    return 0;
  const double center = mean();
  const double squares =
      std::accumulate(sorted_.begin(), sorted_.end(), 0.0, [&](double sum, double value) {
        return sum + (value - center) * (value - center);
      });
  return std::sqrt(squares / double(sorted_.size()));
}

double Distribution::quantile(double share) const {
  if (sorted_.empty())
    return 0;
  const double at = share * double(sorted_.size() - 1);
  const auto below = std::size_t(at);
  const std::size_t above = std::min(below + 1, sorted_.size() - 1);
  return sorted_[below] + (at - double(below)) * (sorted_[above] - sorted_[below]);
}

Figures measure(const Run& run, const std::vector<LatencyLimit>& limits) {
  Figures figures;
  figures.seconds = run.seconds;
  figures.peak_requests = run.peak_sent;
  std::array<std::vector<double>, all_latencies.size()> values;
  const auto of = [&](Latency latency) -> auto& {
    return values[std::size_t(latency)];
  };
  SecondBuckets buckets;
  int good = 0;
  for (const Record& record : run.records) {
    if (record.state == Record::State::failed)
      ++figures.failures[record.reason];
    if (record.state != Record::State::completed)
      continue;
    ++figures.completed;
    good += keeps(record, limits);
    figures.input_tokens += record.prompt_tokens;
    figures.output_tokens += record.output_tokens;
    figures.rounds += record.rounds;
    buckets.add(record);
    of(Latency::ttft).push_back(latency_of(record, Latency::ttft));
    of(Latency::e2el).push_back(latency_of(record, Latency::e2el));
    if (record.output_tokens > 1)
      of(Latency::tpot).push_back(tpot(record));
    std::ranges::copy(record.gaps, std::back_inserter(of(Latency::itl)));
  }
  for (const auto& [reason, count] : figures.failures)
    figures.failed += count;
  if (!limits.empty())
    figures.good = good;
  figures.peak_output_throughput = buckets.peak();
  std::ranges::transform(values, figures.latencies.begin(),
                         [](std::vector<double>& one) { return Distribution(std::move(one)); });
  return figures;
}

} // namespace paceline::apps::load
