// How the memory for keys and values is divided: pages of both pools for as many sequences as fit.
#pragma once

#include "paceline/error.hpp"
#include "scheduling/kv.hpp"

#include <cstddef>

namespace paceline::scheduling {

struct KvDemand {
  std::size_t memory = 0;    ///< Bytes for both pools; 0: what all sequences may need ...
  std::size_t available = 0; ///< ... but then no more than a quarter of this, if one fits there.
  int max_model_len = 0;
  int max_num_seqs = 1;
  int prefill_chunk = 512;
  int page_tokens = 16;
  scheduling::PerPool<std::size_t> page_bytes; ///< Of the draft's: 0 without a draft model.
  int attention_window = 0;                    ///< Positions that the target's rows see; 0: all.
  std::size_t fork_pages = 0;                  ///< Of the draft's, beyond what its sequences hold.
};

/// Pages for each pool: as many sequences' worth of one as of the other. Forks have theirs besides,
/// out of what is there beyond a single sequence. Refused where one sequence does not fit.
Result<scheduling::PerPool<std::size_t>> kv_budget(const KvDemand& demand);

} // namespace paceline::scheduling
