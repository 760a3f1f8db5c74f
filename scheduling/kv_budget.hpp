// How the memory for keys, values and rows of q is divided: for as many sequences as fit.
#pragma once

#include "paceline/error.hpp"
#include "scheduling/kv.hpp"

#include <cstddef>

namespace paceline::scheduling {

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
  int page_tokens = 16;
  PerPool<PoolDemand> pools;
  std::size_t q_row_bytes = 0; ///< 0 without drafts.
  std::size_t q_rows = 0;      ///< That a sequence's chains hold at most.
  std::size_t fork_q_rows = 0; ///< Beyond what sequences hold.
};

struct KvBudget {
  PerPool<std::size_t> pages;
  std::size_t q_rows = 0; ///< Lent at a time.
};

/// As many sequences' worth of each. Forks have theirs besides, out of what is there beyond a
/// single sequence. Refused where one sequence does not fit.
Result<KvBudget> kv_budget(const KvDemand& demand);

} // namespace paceline::scheduling
