// Decides how much memory there is for keys, values and rows of q, and divides it for as many
// sequences as fit.
#pragma once

#include "paceline/error.hpp"
#include "scheduling/kv.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace paceline::scheduling {

/// A memory that has a part of every page.
struct PageShare {
  std::size_t room = 0;  ///< Its bytes that are free for pages.
  std::size_t bytes = 0; ///< Its bytes of each page; more than 0.
};

/// Returns the bytes, over all shares, of as many pages as the tightest share has room for.
std::size_t room_for_pages(std::span<const PageShare> shares);

/// A demand says what was asked for in memory, and what models take of it.
struct MemoryDemand {
  struct Device {
    std::size_t taken = 0;      ///< Bytes that weights and drafts take.
    std::size_t page_bytes = 0; ///< Its part of a page, over all models.
  };
  std::size_t memory = 0;    ///< EngineOptions::memory_bytes, of each device; 0: not set.
  std::size_t kv_memory = 0; ///< EngineOptions::kv_memory_bytes; 0: all that is left.
  std::vector<Device> devices;
};

/// Returns the bytes for pages and rows of q (KvDemand::memory); 0: not set. Fails where weights
/// and drafts leave less than was asked for.
Result<std::size_t> page_memory(const MemoryDemand& demand);

/// The demand of one pool's pages.
struct PoolDemand {
  std::size_t page_bytes = 0;
  int attention_window = 0;   ///< Positions that the model's rows see; 0: all.
  std::size_t fork_pages = 0; ///< Pages beyond those that sequences hold.
};

struct KvDemand {
  std::size_t memory = 0;    ///< Bytes for all; 0: what all sequences may need.
  std::size_t available = 0; ///< Then no more than a quarter of this, if one sequence fits there.
  int max_model_len = 0;
  int max_num_seqs = 1;
  int prefill_chunk = 512;
  int stages = 1; ///< Stages of the target: chunks of a prompt that may be under way.
  int page_tokens = 16;
  PerPool<PoolDemand> pools;
  std::size_t state_bytes = 0; ///< Of a sequence's states in all pools; 0: no layer is recurrent.
  std::size_t q_row_bytes = 0; ///< 0 without drafts.
  std::size_t q_rows = 0;      ///< Rows that a sequence's chains hold at most.
  std::size_t fork_q_rows = 0; ///< Rows beyond those that sequences hold.
};

struct KvBudget {
  PerPool<std::size_t> pages;
  std::size_t states = 0; ///< Of each pool that has states; 0: no layer is recurrent.
  std::size_t q_rows = 0; ///< Rows lent at a time.
  /// Sequences of KvDemand::max_model_len that have room at a time, at most KvDemand::max_num_seqs
  /// (B of Agrawal et al. 2023, "SARATHI"): while there are no more, none loses its pages.
  int full_length = 0;
};

/// Divides the memory so that each pool has room for as many sequences. Forks have pages and rows
/// besides, from what is left beyond a single sequence. Fails where one sequence does not fit.
Result<KvBudget> kv_budget(const KvDemand& demand);

} // namespace paceline::scheduling
