#include "scheduling/kv_budget.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::scheduling {

using scheduling::PerPool;

namespace {

std::size_t pages_of(int tokens, const KvDemand& d) {
  return (std::size_t(tokens) + std::size_t(d.page_tokens) - 1) / std::size_t(d.page_tokens) + 1;
}

/// What one sequence holds at most. The target's pages behind its attention's window come back, but
/// later than new ones are granted: a step, the one after it, and one asked for are there besides.
KvBudget of_one(const KvDemand& d) {
  const int beyond = 3 * d.prefill_chunk + 4 * limits::tokens_ahead;
  const int held = d.attention_window > 0 ? std::min(d.max_model_len, d.attention_window + beyond)
                                          : d.max_model_len;
  return {{pages_of(held, d), pages_of(d.max_model_len, d)}, d.q_rows};
}

std::size_t bytes_of(const KvBudget& b, const KvDemand& d) {
  return b.pages.target * d.page_bytes.target + b.pages.draft * d.page_bytes.draft +
         b.q_rows * d.q_row_bytes;
}

} // namespace

Result<KvBudget> kv_budget(const KvDemand& d) {
  const KvBudget one = of_one(d);
  const KvBudget forks{{0, d.fork_pages}, d.fork_q_rows};
  const std::size_t least = bytes_of(one, d);
  const std::size_t all = least * std::size_t(d.max_num_seqs);
  std::size_t budget = d.memory;
  if (budget == 0)
    budget = std::max(least, std::min(all + bytes_of(forks, d), d.available / 4));
  if (budget < least)
    return fail(ErrorCode::out_of_memory,
                fmt::format("a KV cache of {} bytes does not hold one sequence of {} tokens",
                            budget, d.max_model_len),
                fmt::format("give EngineOptions::kv_memory_bytes at least {}, or lower "
                            "EngineOptions::max_model_len",
                            least));
  const bool with_forks = budget >= least + bytes_of(forks, d);
  const std::size_t whole = pages_of(d.max_model_len, d); // what the prefix cache may keep of one
  const std::size_t most = bytes_of({{whole, whole}, d.q_rows}, d) * std::size_t(d.max_num_seqs);
  const std::size_t rest = std::min(with_forks ? budget - bytes_of(forks, d) : budget, most);
  const auto share = [&](std::size_t of_one, std::size_t of_forks) {
    return of_one * (rest / least) + of_one * (rest % least) / least + (with_forks ? of_forks : 0);
  };
  return KvBudget{{share(one.pages.target, 0), share(one.pages.draft, d.fork_pages)},
                  share(one.q_rows, d.fork_q_rows)};
}

} // namespace paceline::scheduling
