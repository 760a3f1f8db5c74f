// How a model is loaded.
#pragma once

#include "base/log.hpp"
#include "gpu/kv_type.hpp"
#include "gpu/tensor.hpp"
#include "models/layer_range.hpp"
#include "models/limits.hpp"
#include "paceline/engine.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace paceline::models {

class Model;

using ProgressCallback = std::function<void(const std::string& what, double done)>;

struct LoadOptions {
  /// Type of plain weights; automatic: the checkpoint's own.
  NumberFormat dtype = NumberFormat::automatic;
  ProgressCallback progress;                     ///< May be empty.
  base::Log log = {};                            ///< Told what is not as the checkpoint demands.
  std::stop_token stop = {};                     ///< Same as EngineOptions::stop.
  int max_positions = limits::positions_default; ///< A longer context is cut to this.
  int positions_needed = 0;                      ///< A shorter context is refused.
  /// Format of the blocks' linear layers; none: dtype.
  std::optional<gpu::Quantization> blocks = {};
  std::optional<gpu::Quantization> head = {}; ///< Format of the output head; none: dtype.
  bool drafts = false;                        ///< Refuse models that cannot draft.
  Activations activations = Activations::automatic;
  KvCacheDtype kv_cache_dtype = KvCacheDtype::automatic;
  std::vector<int> stage_layers = {}; ///< Layers of each stage; empty: divided by their cost.
  /// The only layers to load, on one device: a stage whose neighbours are on other machines.
  std::optional<LayerRange> only = {};
  /// The same checkpoint, loaded with these options except `blocks` into memory that the device
  /// uses: this model shares everything but the linear layers of its blocks. Null: nothing is
  /// shared.
  std::shared_ptr<const Model> shared = {};
  /// The model that a head (head.hpp) is on, also in memory that the device uses; its tables serve
  /// a head that has none.
  std::shared_ptr<const Model> target = {};

  bool int8_rows() const { return activations == Activations::int8; }
  bool int8_cache() const { return kv_cache_dtype == KvCacheDtype::int8; }
  /// Returns the type of keys and values. bf16: whether 16 bits are enough for the weights.
  gpu::KvType cached(bool bf16) const {
    if (int8_cache())
      return gpu::KvType::int8;
    return bf16 ? gpu::KvType::bf16 : gpu::KvType::f32;
  }
};

} // namespace paceline::models
