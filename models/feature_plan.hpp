// Which rows of pages' features (gpu::KvPool::features) a pass reads and leaves.
#pragma once

#include "models/model.hpp"

#include <cstdint>
#include <vector>

namespace paceline::models {

struct FeaturePlan {
  /// Rows of a pool's features, and the rows of the pass that read them.
  struct Reads {
    std::vector<std::int32_t> from;
    std::vector<std::int32_t> to;
    int rows() const { return int(from.size()); }
  };
  gpu::Tensor target;             ///< The features of the model that a head is on,
  Reads tapped;                   ///< and what is read of them.
  gpu::Tensor own;                ///< The features of the model's own pages,
  Reads drafted;                  ///< what a head reads of them,
  std::vector<std::int32_t> left; ///< and where the rows that leave features leave them.

  void clear(const gpu::KvPool& pool) {
    *this = {};
    own = pool.features();
  }

  /// What row number `row` reads, whose token stands at `position`: the features of the position
  /// before, which are the target's as far as it has them. No row of another sequence, and none of
  /// a token that was not accepted, is ever among the leading Features::count.
  void read(const SequenceRows& sequence, const gpu::KvPool& pool, int position, int row) {
    const Features& features = sequence.features;
    const bool has = position - 1 < features.count;
    if (has)
      target = features.pool->features();
    Reads& reads = has ? tapped : drafted;
    reads.from.push_back(has ? features.pool->feature_row(features.pages, position - 1)
                             : pool.feature_row(sequence.pages, position - 1));
    reads.to.push_back(row);
  }
};

} // namespace paceline::models
