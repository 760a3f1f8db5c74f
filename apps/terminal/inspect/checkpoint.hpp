// The facts in a checkpoint, read without loading a model from it, and whether two checkpoints make
// a pair.
#pragma once

#include "gpu/operations.hpp"
#include "models/config.hpp"
#include "models/sources.hpp"
#include "paceline/weight_format.hpp"
#include "text/chat_template.hpp"
#include "text/vocabulary_map.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace paceline::apps {

/// All facts in a folder, read without loading a model from it.
struct Checkpoint {
  std::string name;
  std::string folder;
  models::ModelConfig config;
  models::GenerationDefaults defaults;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  Result<text::ChatTemplate> chat = text::ChatTemplate::plain(""); ///< Or why it has none to use.
  std::uint64_t parameters = 0;
  std::vector<std::string> dtypes;
  std::string description;                              ///< Other facts that the file states.
  std::map<std::string, std::uint64_t> bytes;           ///< Bytes of weights, by part.
  std::map<std::string, std::set<std::string>> formats; ///< Storage formats of weights, by part.
  std::vector<std::string> missing; ///< Tensors that this configuration needs and the folder lacks.
  std::uint64_t decoded_bytes = 0;  ///< Size of stored blocks as `decoded_to`; 0: none are decoded.
  gpu::DType decoded_to = gpu::DType::bf16;
  gpu::KvType cached = gpu::KvType::bf16;  ///< Type of its keys and values.
  std::optional<WeightFormat> format = {}; ///< Format that its blocks would be quantized to.
  std::uint64_t loaded_bytes = 0;          ///< Bytes of all weights in memory in that format.
  std::uint64_t kept_bytes = 0;            ///< Bytes among them that no format quantizes.
  std::uint64_t shared_bytes = 0;          ///< Bytes that are the target's, too: a draft out of it.
  /// The layout of a head on the target; the next member has the layers whose inputs it reads.
  std::string head_layout = {};
  std::vector<int> target_layers = {};
  std::vector<int> key_layers = {}; ///< Layers of the target whose keys and values it reads.

  /// Counts keys and values as they would be kept.
  void cache_as(KvCacheDtype dtype) {
    if (dtype == KvCacheDtype::int8)
      cached = gpu::KvType::int8;
  }
  std::uint64_t kv_bytes_per_token() const {
    return config.token_bytes(0, config.layers, cached) +
           std::uint64_t(config.features()) * sizeof(float);
  }
  /// Returns the bytes of a sequence's state; 0: no layer is recurrent.
  std::uint64_t state_bytes() const { return config.states_of(0, config.layers).bytes(); }
  /// Returns the parameters that a token passes through: all but those of experts that it does not
  /// go to.
  std::uint64_t active_parameters() const {
    const double units = config.layers * (config.stored_ffn() - config.active_ffn());
    const auto skipped = std::uint64_t(config.ffn_products() * config.hidden * units + 0.5);
    return parameters - std::min(parameters, skipped); // Some may be missing.
  }
  std::uint64_t weight_bytes() const {
    return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t(0),
                           [](std::uint64_t sum, const auto& part) { return sum + part.second; });
  }
};

/// Reads a checkpoint. name: a folder, a hub id or `demo`. role: `target` or `draft`, for errors.
/// format: the one that its blocks would be quantized to.
Result<Checkpoint> read_checkpoint(const std::string& name, const std::string& role,
                                   const std::optional<WeightFormat>& format);

/// Reads a draft, which may be of the target's own weights (`self:FORMAT`) or a head on it
/// (`eagle3:DIR`, `dflash:DIR`, `gemma4-assistant:DIR`); the target then keeps in its pages the
/// values that the head reads.
Result<Checkpoint> read_draft(const std::string& name, Checkpoint& target,
                              const std::optional<WeightFormat>& format);

/// The facts on two checkpoints together.
struct Pair {
  Result<std::shared_ptr<const text::VocabularyMap>> map; ///< Null: both have the same vocabulary.
  std::uint64_t bytes; ///< Weights, and the caches of one sequence of the target's whole context.
  int draft_context;   ///< Positions that the draft reads; 0: as many as the target.
};

Pair pair_of(const Checkpoint& target, const Checkpoint& draft);

} // namespace paceline::apps
