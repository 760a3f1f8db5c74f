// The rows of pages' features (gpu::KvPool::features) that a pass reads and leaves.
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
  gpu::Tensor target;             ///< Features of the model that a head is on.
  Reads tapped;                   ///< Rows that the pass reads of `target`.
  gpu::Tensor own;                ///< Features in the model's own pages.
  Reads drafted;                  ///< Rows that a head reads of `own`.
  std::vector<std::int32_t> left; ///< Rows of `own` where the pass leaves features.
  /// Rows of `target` whose keys and values the pass puts into the head's own pages, and where:
  /// only a head with ModelConfig::reads_keys has such.
  std::vector<std::int32_t> given;
  gpu::RowMap given_rows;

  void clear(const gpu::KvPool& pool) {
    *this = {};
    own = pool.features();
  }

  /// Plans that keys and values of the position are taken over, if they are the target's. Those of
  /// further positions may be of rejected tokens, or are being written.
  void take_keys(const SequenceRows& sequence, int index, int position) {
    const Features& features = sequence.features;
    if (position >= features.count)
      return;
    target = features.pool->features();
    given.push_back(features.row(position));
    given_rows.sequence.push_back(index);
    given_rows.position.push_back(position);
  }

  /// Plans what row number `row` reads, whose token stands at `position`: the features of the
  /// position before, which are the target's as far as it has them. The leading Features::count
  /// never include a row of another sequence, or of a token that was not accepted.
  void read(const SequenceRows& sequence, const gpu::KvPool& pool, int position, int row) {
    const Features& features = sequence.features;
    const bool has = position - 1 < features.count;
    if (has)
      target = features.pool->features();
    Reads& reads = has ? tapped : drafted;
    reads.from.push_back(has ? features.row(position - 1)
                             : pool.feature_row(sequence.pages, position - 1));
    reads.to.push_back(row);
  }
};

} // namespace paceline::models
