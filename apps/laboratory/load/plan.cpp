#include "apps/laboratory/load/plan.hpp"

#include "apps/console/limits.hpp"
#include "apps/laboratory/load/arrivals.hpp"

#include <algorithm>
#include <limits>

namespace paceline::apps::load {

Result<Plan> Plan::load(PlanOptions options) {
  Plan plan;
  std::size_t count = std::size_t(options.requests.value_or(limits::load_requests));
  const auto at_most = [&](std::size_t there) {
    count = options.requests ? std::min(count, there) : there;
  };
  if (!options.trace_file.empty()) {
    const auto trace = read_trace(options.trace_file);
    if (!trace)
      return tl::unexpected(trace.error());
    at_most(trace->size());
    for (std::size_t i = 0; i < count; ++i) {
      plan.traced_.push_back((*trace)[i].arrival);
      plan.lengths_.push_back((*trace)[i].lengths);
    }
  } else if (!options.prompts_file.empty()) {
    auto written = read_prompts(options.prompts_file);
    if (!written)
      return tl::unexpected(written.error());
    at_most(written->size());
    written->resize(count);
    for (const WrittenPrompt& prompt : *written)
      plan.lengths_.push_back({0, prompt.max_tokens.value_or(options.mean.output)});
    plan.written_ = std::move(*written);
  } else {
    plan.lengths_ = draw_lengths(count, options.mean, options.range_ratio, options.seed);
  }
  plan.options_ = std::move(options);
  return plan;
}

double Plan::rate() const {
  return options_.rate.value_or(std::numeric_limits<double>::infinity());
}

std::vector<double> Plan::arrivals(std::optional<double> rate) const {
  if (!rate)
    rate = options_.rate;
  if (traced_.empty())
    return draw_arrivals(size(), rate.value_or(std::numeric_limits<double>::infinity()),
                         options_.burstiness, options_.seed);
  std::vector<double> arrivals = traced_;
  if (rate)
    stretch(arrivals, *rate);
  return arrivals;
}

std::vector<Item> Plan::items(const PromptPool* pool, std::optional<double> rate, int round) const {
  std::vector<Prompt> prompts;
  if (pool)
    prompts = draw_prompts(*pool, lengths_, options_.seed + std::uint64_t(round));
  else
    for (const WrittenPrompt& written : written_)
      prompts.push_back(written.prompt);
  const std::vector<double> when = arrivals(rate);
  std::vector<Item> items;
  for (std::size_t i = 0; i < size(); ++i)
    items.push_back({when[i], std::move(prompts[i]), lengths_[i].output});
  return items;
}

} // namespace paceline::apps::load
