// Makes a larger checkpoint that computes the same distribution, for measurements: it costs what a
// model of that size costs, with the acceptance rate of the small pair that it was made from.
//
// Channels, heads, layers and the feed-forward's width grow; the original takes the first of each.
// Added channels of the residual stream stay zero (zero columns of the embedding, zero rows of
// output projections); added heads, layers and feed-forward units add nothing to it (zero output
// projections); every other new weight is random. The hidden size grows by powers of four, so that
// a norm's root is off by a power of two, which its weight compensates exactly; epsilon shrinks by
// the same power of four.
//
// The original may also become a mixture of experts, a Mixtral: each expert has the original's
// feed-forward in it, and the weights of a row's experts add up to one.
#pragma once

#include "models/load_options.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <string>

namespace paceline::models {

/// What a model is to be enlarged to.
struct Enlargement {
  std::uint64_t parameters = 0;
  bool mixture = false; ///< It becomes a mixture of `scaled_experts`.
};

inline constexpr int scaled_experts = 16;
inline constexpr int scaled_top_k = 2; ///< Experts that a token goes to.

/// The sizes of a Llama with grouped heads, or of a Mixtral.
struct Shape {
  int hidden = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;
  int vocabulary = 0;
  bool tied = false;
  int experts = 0; ///< 0: its layers are dense.

  std::uint64_t layer_parameters() const; ///< Parameters of one layer's matrices.
  std::uint64_t parameters() const;       ///< Parameters of all matrices.
};

/// Returns the enlarged shape of about so many parameters, at least those of `base` (as a mixture
/// if that is wanted): as wide as its layers allow, then as many layers as fit, then the
/// feed-forward widened to match.
Result<Shape> enlarged_shape(const Shape& base, const Enlargement& wanted);

/// Writes the checkpoint `source` (a folder: LlamaForCausalLM in bf16), enlarged to about so many
/// parameters, with its tokenizer, into the folder `target`, which must exist and be empty. It
/// needs as much room on disk as the weights take. Threads: the caller's. progress: may be empty.
Result<void> enlarge_checkpoint(const std::string& source, const std::string& target,
                                const Enlargement& wanted, const ProgressCallback& progress);

} // namespace paceline::models
