// Makes a larger checkpoint that computes the same distribution, for measurements: it costs what a
// model of that size costs, with the acceptance rate of the small pair that it was made from.
//
// Channels, heads, layers and the feed-forward's width grow; the original takes the first of each.
// Added channels of the residual stream stay zero (zero columns of the embedding, zero rows of
// output projections); added heads, layers and feed-forward units add nothing to it (zero output
// projections); every other new weight is random. The hidden size grows by powers of four, so that
// a norm's root is off by a power of two, which its weight compensates exactly; epsilon shrinks by
// the same power of four.
#pragma once

#include "models/load_options.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <string>

namespace paceline::models {

/// The sizes of a Llama with grouped heads.
struct Shape {
  int hidden = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;
  int vocabulary = 0;
  bool tied = false;

  std::uint64_t layer_parameters() const; ///< Parameters of one layer's matrices.
  std::uint64_t parameters() const;       ///< Parameters of all matrices.
};

/// Returns the enlarged shape of about `parameters`, at least those of `base`: as wide as its
/// layers allow, then as many layers as fit, then the feed-forward widened to match.
Result<Shape> enlarged_shape(const Shape& base, std::uint64_t parameters);

/// Writes the checkpoint `source` (a folder: LlamaForCausalLM in bf16), enlarged to about
/// `parameters`, with its tokenizer, into the folder `target`, which must exist and be empty. It
/// needs as much room on disk as the weights take. Threads: the caller's. progress: may be empty.
Result<void> enlarge_checkpoint(const std::string& source, const std::string& target,
                                std::uint64_t parameters, const ProgressCallback& progress);

} // namespace paceline::models
