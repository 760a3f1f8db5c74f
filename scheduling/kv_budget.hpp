// How much memory there is for keys, values and rows of q, and how it is divided: for as many
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
  std::size_t room = 0;  ///< Bytes of it that are free for pages.
  std::size_t bytes = 0; ///< Of a page; more than 0.
};

/// Bytes, over all shares, of as many pages as there is room for where there is least.
std::size_t room_for_pages(std::span<const PageShare> shares);

/// What is said of memory, and what models take of it.
struct MemoryDemand {
  struct Device {
    std::size_t taken = 0;      ///< By weights and drafts.
    std::size_t page_bytes = 0; ///< Its part of a page, over all models.
  };
  std::size_t memory = 0;    ///< EngineOptions::memory_bytes: of each device; 0: nothing is said.
  std::size_t kv_memory = 0; ///< EngineOptions::kv_memory_bytes; 0: all that is left.
  std::vector<Device> devices;
};

/// Bytes for pages and rows of q (KvDemand::memory); 0: nothing is said. Refused where weights and
/// drafts leave less than was asked for.
Result<std::size_t> page_memory(const MemoryDemand& demand);

/// What a pool's pages are for.
struct PoolDemand {
  std::size_t page_bytes = 0;
  int attention_window = 0;   ///< Positions that the model's rows see; 0: all.
  std::size_t fork_pages = 0; ///< Beyond what sequences hold.
};

struct KvDemand {
  std::size_t memory = 0;    ///< Bytes for all of it; 0: what all sequences may need ...
  std::size_t available = 0; ///< ... but then no more than a quarter of this, if one fits there.
  int max_model_len = 0;
  int max_num_seqs = 1;
  int prefill_chunk = 512;
  int stages = 1; ///< Of the target: chunks of a prompt that may be under way.
  int page_tokens = 16;
  PerPool<PoolDemand> pools;
  std::size_t q_row_bytes = 0; ///< 0 without drafts.
  std::size_t q_rows = 0;      ///< That a sequence's chains hold at most.
  std::size_t fork_q_rows = 0; ///< Beyond what sequences hold.
};

struct KvBudget {
  PerPool<std::size_t> pages;
  std::size_t q_rows = 0; ///< Lent at a time.
  /// Sequences of KvDemand::max_model_len that have room at a time, and at most
  /// KvDemand::max_num_seqs (B of Agrawal et al. 2023, "SARATHI"): of so many none loses its pages.
  int full_length = 0;
};

/// As many sequences' worth of each. Forks have theirs besides, out of what is there beyond a
/// single sequence. Refused where one sequence does not fit.
Result<KvBudget> kv_budget(const KvDemand& demand);

} // namespace paceline::scheduling
