// What a checkpoint says of itself, read without loading a model from it; and of two of them,
// whether they make a pair.
#pragma once

#include "gpu/operations.hpp"
#include "models/config.hpp"
#include "models/sources.hpp"
#include "paceline/weight_format.hpp"
#include "text/chat_template.hpp"
#include "text/vocabulary_map.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace paceline::apps {

/// All that a folder says, without loading a model from it.
struct Checkpoint {
  std::string name;
  std::string folder;
  models::ModelConfig config;
  models::GenerationDefaults defaults;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  Result<text::ChatTemplate> chat = text::ChatTemplate::plain(""); ///< Or why it has none to use.
  std::uint64_t parameters = 0;
  std::vector<std::string> dtypes;
  std::string description;                              ///< What else the file says of itself.
  std::map<std::string, std::uint64_t> bytes;           ///< Of weights, by part,
  std::map<std::string, std::set<std::string>> formats; ///< and how they are stored.
  std::vector<std::string> missing; ///< Tensors that a model of this configuration needs.
  std::uint64_t decoded_bytes = 0;  ///< Of stored blocks, once they are `decoded_to`; 0: none are.
  gpu::DType decoded_to = gpu::DType::bf16;
  gpu::DType cache_dtype = gpu::DType::bf16;
  std::optional<WeightFormat> format = {}; ///< That its blocks would be quantized to,
  std::uint64_t loaded_bytes = 0;          ///< and all weights then, in memory.
  std::uint64_t kept_bytes = 0;            ///< Of them what no format quantizes.
  std::uint64_t shared_bytes = 0;          ///< That are the target's, too: a draft out of it.
  /// Of a head on the target: its layout, and the layers whose inputs it reads.
  std::string head_layout = {};
  std::vector<int> target_layers = {};

  std::uint64_t kv_bytes_per_token() const {
    gpu::KvLayout layout{config.layers, config.kv_heads, config.head_dim};
    layout.dtype = cache_dtype;
    return layout.token_bytes() + std::uint64_t(config.features()) * sizeof(float);
  }
  std::uint64_t weight_bytes() const {
    return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t(0),
                           [](std::uint64_t sum, const auto& part) { return sum + part.second; });
  }
};

/// name: a folder, a hub id or `demo`. role: `target` or `draft`, for errors. format: what its
/// blocks would be quantized to.
Result<Checkpoint> read_checkpoint(const std::string& name, const std::string& role,
                                   const std::optional<WeightFormat>& format);

/// The same of a draft, which may be of the target's own weights (`self:FORMAT`) or a head on it
/// (`eagle3:DIR`); the target then leaves what the head reads in its pages.
Result<Checkpoint> read_draft(const std::string& name, Checkpoint& target,
                              const std::optional<WeightFormat>& format);

/// What is to be said of two checkpoints together.
struct Pair {
  Result<std::shared_ptr<const text::VocabularyMap>> map; ///< Null: the vocabulary is one.
  std::uint64_t bytes; ///< Weights, and the caches of one sequence of the target's whole context.
  int draft_context;   ///< Beyond it the draft is left out; 0: it reads as far as the target.
};

Pair pair_of(const Checkpoint& target, const Checkpoint& draft);

} // namespace paceline::apps
