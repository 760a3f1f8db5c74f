#include "scheduling/kv_budget.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace paceline::scheduling {

namespace {

std::size_t pages_of(int tokens, const KvDemand& d) {
  return (std::size_t(tokens) + std::size_t(d.page_tokens) - 1) / std::size_t(d.page_tokens) + 1;
}

/// Returns the most tokens that one sequence holds. Pages behind an attention's window come back,
/// but later than new ones are granted, so it also holds those of a step in each stage, of the one
/// after these, and of one asked for.
int held_by_one(const PoolDemand& pool, const KvDemand& d) {
  const int beyond = (d.stages + 2) * d.prefill_chunk + 4 * limits::tokens_ahead;
  return pool.attention_window > 0 ? std::min(d.max_model_len, pool.attention_window + beyond)
                                   : d.max_model_len;
}

template <class PagesOf>
KvBudget budget_of(const KvDemand& d, const PagesOf& pages_in, std::size_t q_rows) {
  KvBudget budget{{}, 0, q_rows, 0};
  for (const PoolDemand& pool : d.pools)
    budget.pages.push_back(pages_in(pool));
  return budget;
}

/// Returns the fewest sequences that any pool has room for. A sequence needs no page but those of
/// its tokens; where pages come and go it needs one more, since a window may begin inside one.
int full_length_of(const KvBudget& b, const KvDemand& d) {
  std::size_t sequences = std::size_t(d.max_num_seqs);
  if (d.state_bytes > 0)
    sequences = std::min(sequences, b.states);
  for (Pool pool = 0; pool < d.pools.size(); ++pool) {
    const int held = held_by_one(d.pools[pool], d);
    const std::size_t pages = pages_of(held, d) - (held == d.max_model_len ? 1 : 0);
    sequences = std::min(sequences, b.pages[pool] / pages);
  }
  return int(sequences);
}

/// Returns how many states there are: one in any case, and within half of the memory, since most
/// sequences are far from the longest, two for each that may run. A step that does not retire holds
/// those of all its sequences, which go on meanwhile. least: bytes of a sequence's pages and rows.
std::size_t states_within(std::size_t memory, std::size_t least, const KvDemand& d) {
  if (d.state_bytes == 0)
    return 0;
  const std::size_t room = std::min(memory / 2, memory - least) / d.state_bytes;
  return std::clamp<std::size_t>(room, 1, 2 * std::size_t(d.max_num_seqs));
}

std::size_t bytes_of(const KvBudget& b, const KvDemand& d) {
  std::size_t bytes = b.q_rows * d.q_row_bytes;
  for (Pool pool = 0; pool < d.pools.size(); ++pool)
    bytes += b.pages[pool] * d.pools[pool].page_bytes;
  return bytes;
}

} // namespace

std::size_t room_for_pages(std::span<const PageShare> shares) {
  double pages = std::numeric_limits<double>::infinity();
  std::size_t bytes = 0;
  for (const PageShare& share : shares) {
    pages = std::min(pages, double(share.room) / double(share.bytes));
    bytes += share.bytes;
  }
  return std::size_t(pages * double(bytes));
}

Result<std::size_t> page_memory(const MemoryDemand& d) {
  if (d.memory == 0)
    return d.kv_memory;
  std::size_t taken = 0;
  std::vector<PageShare> shares;
  for (const MemoryDemand::Device& device : d.devices) {
    taken = std::max(taken, device.taken);
    shares.push_back({d.memory - std::min(d.memory, device.taken), device.page_bytes});
  }
  const std::size_t most = room_for_pages(shares);
  if (most < std::max<std::size_t>(d.kv_memory, 1))
    return fail(ErrorCode::out_of_memory,
                fmt::format("EngineOptions::memory_bytes is {}, and weights and drafts take {}",
                            d.memory, taken),
                d.kv_memory > 0 ? "give more, or EngineOptions::kv_memory_bytes less"
                                : "give more, for there have to be pages, too");
  return d.kv_memory > 0 ? d.kv_memory : most;
}

Result<KvBudget> kv_budget(const KvDemand& d) {
  const KvBudget one = budget_of(
      d, [&](const PoolDemand& pool) { return pages_of(held_by_one(pool, d), d); }, d.q_rows);
  const KvBudget forks = budget_of(
      d, [](const PoolDemand& pool) { return pool.fork_pages; }, d.fork_q_rows);
  const std::size_t least = bytes_of(one, d);
  const std::size_t with_state = least + d.state_bytes;
  const std::size_t all = (with_state + d.state_bytes) * std::size_t(d.max_num_seqs);
  std::size_t budget = d.memory;
  if (budget == 0)
    budget = std::max(with_state, std::min(all + bytes_of(forks, d), d.available / 4));
  if (budget < with_state)
    return fail(ErrorCode::out_of_memory,
                fmt::format("a KV cache of {} bytes does not hold one sequence of {} tokens",
                            budget, d.max_model_len),
                fmt::format("give EngineOptions::kv_memory_bytes at least {}, or lower "
                            "EngineOptions::max_model_len",
                            with_state));
  const std::size_t states = states_within(budget, least, d);
  budget -= states * d.state_bytes;
  const bool with_forks = budget >= least + bytes_of(forks, d);
  const KvBudget whole = budget_of( // one sequence, with what the prefix cache may keep of it
      d, [&](const PoolDemand&) { return pages_of(d.max_model_len, d); }, d.q_rows);
  const std::size_t most = bytes_of(whole, d) * std::size_t(d.max_num_seqs);
  const std::size_t rest = std::min(with_forks ? budget - bytes_of(forks, d) : budget, most);
  const auto share = [&](std::size_t of_one, std::size_t of_forks) {
    return of_one * (rest / least) + of_one * (rest % least) / least + (with_forks ? of_forks : 0);
  };
  KvBudget divided{{}, states, share(one.q_rows, forks.q_rows), 0};
  for (Pool pool = 0; pool < d.pools.size(); ++pool)
    divided.pages.push_back(share(one.pages[pool], forks.pages[pool]));
  divided.full_length = full_length_of(divided, d);
  return divided;
}

} // namespace paceline::scheduling
