#include "apps/laboratory/load/server_metrics.hpp"

#include "base/parse_number.hpp"

#include <algorithm>

namespace paceline::apps::load {
namespace {

/// A line "name{labels} value" of the page.
struct Sample {
  std::string_view name;
  double value = 0;
};

std::optional<Sample> parse_sample(std::string_view line) {
  const std::size_t end = line.find_first_of("{ ");
  const std::size_t labels_end = line.find('}');
  if (line.starts_with('#') || end == std::string_view::npos)
    return std::nullopt;
  std::string_view rest = line.substr(labels_end == std::string_view::npos ? end : labels_end + 1);
  while (rest.starts_with(' '))
    rest.remove_prefix(1);
  const auto value = base::take_number<double>(rest);
  return value ? std::optional(Sample{line.substr(0, end), *value}) : std::nullopt;
}

void add(TargetState& state, const Sample& sample) {
  if (sample.name == "vllm:num_requests_running")
    state.running += sample.value;
  else if (sample.name == "vllm:num_requests_waiting")
    state.waiting += sample.value;
  else if (sample.name == "vllm:num_preemptions_total")
    state.preemptions += sample.value;
  else if (sample.name == "vllm:spec_decode_num_draft_tokens_total")
    state.window_tokens += sample.value;
  else if (sample.name == "vllm:spec_decode_num_accepted_tokens_total")
    state.accepted += sample.value;
  else if (sample.name == "paceline_judged_tokens_total")
    state.judged += sample.value;
  else if (sample.name == "vllm:spec_decode_num_accepted_tokens_per_pos_total")
    state.accepted_by_position.push_back(sample.value); // The positions come in their order.
}

} // namespace

std::optional<TargetState> read_metrics(std::string_view page) {
  TargetState state;
  bool found = false;
  while (!page.empty()) {
    const std::size_t end = std::min(page.find('\n'), page.size());
    if (const auto sample = parse_sample(page.substr(0, end))) {
      found |= sample->name == "vllm:num_requests_running";
      add(state, *sample);
    }
    page.remove_prefix(std::min(end + 1, page.size()));
  }
  return found ? std::optional(std::move(state)) : std::nullopt;
}

} // namespace paceline::apps::load
