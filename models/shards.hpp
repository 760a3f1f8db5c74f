// The division of a layer among several devices, as in Megatron-LM (Shoeybi et al. 2019, section
// 3). Heads and feed-forward units are divided, so a shard needs no other between what it reads and
// what it adds to the residual, which is summed over all shards. So are the vocabulary's rows of
// embedding and head.
#pragma once

#include "models/config.hpp"

#include <span>
#include <string>

namespace paceline::models {

/// Consecutive rows or columns.
struct Range {
  int first = 0;
  int count = 0;
  bool operator==(const Range&) const = default;
};

/// One of `of` shards, by its number among them. The members' `config` is the whole model's.
struct Shard {
  int number = 0;
  int of = 1;

  bool is_one() const { return of == 1; }
  Range heads(const ModelConfig& config) const { return part(config.heads); }
  /// Returns the shard's heads of keys and values. If there are more shards than such heads, each
  /// shard has one, and several have the same.
  Range kv_heads(int all) const;
  /// Returns the shard's rows of a table. Shards have whole rows, as evenly divided as possible.
  Range part(int rows) const;

  /// Returns the configuration of the model that this shard computes by itself.
  ModelConfig config(ModelConfig whole) const;
};

/// Refuses a number of shards that does not divide the model, and says which do. in_blocks: linear
/// layers are of a microscaling format, whose blocks stay whole.
Result<void> check_shards(const std::string& location, const ModelConfig& config, bool in_blocks,
                          int shards);

} // namespace paceline::models
