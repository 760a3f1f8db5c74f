// A drafter of blocks, on another model (DFlash: Chen et al. 2026, section 4): one pass gives
// logits for several positions behind the last committed token.
//
// What the other model left for a position (features) is combined into one row by a product and a
// norm. Of this row, the same for all layers, each layer makes the position's keys and values,
// which stay in the drafter's pages. A block stands behind them: a row for the last committed
// token, and one for each token to be drafted, which reads the mask token. All rows of a block see
// the positions before it, and one another (LayerConfig::both_ways). The row of a position gives
// the logits for this position; so no drafted token depends on another one. The keys and values of
// a block are good for its own pass only: each pass stores what lies behind the features anew.
#pragma once

#include "models/config.hpp"
#include "models/model.hpp"
#include "models/transformer_weights.hpp"

#include <memory>

namespace paceline::models {

/// Makes a drafter. config: checked (config.hpp), with Joint::context. Its passes take
/// SequenceRows::masks; `tokens` are committed, and the features of the positions before each of
/// them must be there. The pages must cover the block.
std::shared_ptr<const Model> make_block_drafter(ModelConfig config, TransformerWeights weights,
                                                ModelInfo info,
                                                std::shared_ptr<gpu::Device> device);

} // namespace paceline::models
