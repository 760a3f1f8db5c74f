#include "apps/server/reply.hpp"

#include "apps/console/limits.hpp"

#include <algorithm>
#include <utility>

namespace paceline::apps::serve {
namespace {

void add(SpeculationStats& sum, const SpeculationStats& more) {
  sum.drafted += more.drafted;
  sum.judged += more.judged;
  sum.accepted += more.accepted;
  sum.rounds += more.rounds;
  sum.lookahead_hits += more.lookahead_hits;
  sum.fork_hits += more.fork_hits;
  sum.lookahead_rounds += more.lookahead_rounds;
  sum.tree_tokens += more.tree_tokens;
  for (std::size_t i = 0; i < std::min(sum.drafters.size(), more.drafters.size()); ++i) {
    sum.drafters[i].judged += more.drafters[i].judged;
    sum.drafters[i].accepted += more.drafters[i].accepted;
  }
}

} // namespace

std::size_t Choice::json_bytes() const {
  const auto bytes_of = [](const std::vector<TokenLogprob>& scores) {
    return scores.empty() ? 0
                          : scores.size() * (1 + scores.back().top.size()) * limits::score_bytes;
  };
  return echo.size() + answer.text.size() + bytes_of(answer.logprobs) +
         (prompt ? bytes_of(prompt->logprobs) : 0);
}

Counts counts_of(const std::vector<Choice>& choices, int n) {
  Counts sum;
  for (const Choice& choice : choices) {
    const Finished& end = choice.answer.end;
    if (choice.index == 0)
      sum.speculation = end.speculation;
    else
      add(sum.speculation, end.speculation);
    sum.usage.completion_tokens += end.usage.completion_tokens;
    if (choice.index % std::size_t(n) == 0) {
      sum.usage.prompt_tokens += end.usage.prompt_tokens;
      sum.usage.cached_tokens += end.usage.cached_tokens;
    }
  }
  return sum;
}

void add_origin(boost::json::object& to, const Finished& end) {
  to["seed"] = end.seed;
  to["verify"] = to_string(end.speculation.verify);
  to["reproducible"] = end.reproducible;
}

} // namespace paceline::apps::serve
