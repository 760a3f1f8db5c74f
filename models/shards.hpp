// How a layer is divided among several devices, as in Megatron-LM (Shoeybi et al. 2019, section 3):
// heads and feed-forward units on each, so that a shard needs nobody between what it reads and what
// it adds to the residual, which is summed over all shards; and the vocabulary's rows of embedding
// and head.
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

/// One of `of` shards, by its place among them. The members' `config` is the whole model's.
struct Shard {
  int number = 0;
  int of = 1;

  bool is_one() const { return of == 1; }
  Range heads(const ModelConfig& config) const { return part(config.heads); }
  /// Where there are more shards than heads of keys and values, each has one, and several the same.
  Range kv_heads(const ModelConfig& config) const;
  Range ffn(const ModelConfig& config) const { return part(config.ffn); }
  /// Of the rows of a table; a whole number of them, as even as they go.
  Range part(int rows) const;

  /// The model that this shard computes by itself.
  ModelConfig config(ModelConfig whole) const;
};

/// Refuses numbers of shards that do not divide the model, and says which do. in_blocks: its linear
/// layers are of a microscaling format, whose blocks stay whole.
Result<void> check_shards(const std::string& location, const ModelConfig& config, bool in_blocks,
                          int shards);

} // namespace paceline::models
