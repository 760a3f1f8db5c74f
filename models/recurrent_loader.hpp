// Loads the weights of recurrent layers. These are not divided among shards.
#pragma once

#include "models/checkpoint/tensor_source.hpp"
#include "models/config.hpp"
#include "models/packer.hpp"
#include "models/transformer_weights.hpp"

#include <initializer_list>
#include <optional>

namespace paceline::models {

class RecurrentLoader {
public:
  /// All of these must outlive this object. blocks: the format of products; none: as stored.
  RecurrentLoader(TensorSource& tensors, const ModelConfig& config, Packer& packer,
                  const std::optional<gpu::Quantization>& blocks)
      : tensors_(tensors), config_(config), packer_(packer), blocks_(blocks) {}

  /// Loads what no product reads.
  void set_constants(TransformerBlock& block, int i) const;
  /// Loads the products before and behind a layer's mixer.
  void set_products(TransformerBlock& block, int i) const;

private:
  bool convolves(int i) const {
    return config_.mixers[std::size_t(i)].mixer == Mixer::short_convolution;
  }
  void set_kernel(TransformerBlock& block, int i, int taps, const std::vector<Range>& channels,
                  bool bias) const;
  void set_rates(TransformerBlock& block, int i) const;
  std::shared_ptr<const gpu::Weight> delta_in(int i) const;
  std::shared_ptr<const gpu::Weight> product(const std::vector<LayerPart>& parts, int cols) const {
    return packer_.pack(parts, cols, blocks_);
  }
  std::shared_ptr<gpu::Buffer> vector(TensorKey key, int size) const;

  TensorSource& tensors_;
  const ModelConfig& config_;
  Packer& packer_;
  const std::optional<gpu::Quantization>& blocks_;
};

} // namespace paceline::models
