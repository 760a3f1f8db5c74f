// A checkpoint as llama.cpp has it: one file, or the parts of one, with all that a model needs.
#pragma once

#include "models/checkpoint/source.hpp"

#include <optional>
#include <string>

namespace paceline::models {

/// The GGUF file at a location: itself, or the only model in a folder that has no config.json.
/// None: it is a checkpoint of another kind. An error: the folder holds several models.
Result<std::optional<std::string>> find_gguf(const std::string& location);

class GgufSource final : public CheckpointSource {
public:
  explicit GgufSource(std::string file) : CheckpointSource(std::move(file)) {}

  Result<ModelConfig> config() const override;
  Result<std::unique_ptr<TensorSource>> tensors(const ModelConfig& config) const override;
  /// tokenizer.ggml.*
  Result<std::shared_ptr<const text::Tokenizer>> tokenizer() const override;
  /// tokenizer.chat_template
  Result<text::ChatTemplate> chat_template(const std::string& opening) const override;
  Result<text::ChatTemplate> chat_template_from(const std::string& file) const override;
  /// general.sampling.*, and the tokens that end a text or a turn.
  Result<GenerationDefaults> generation_defaults() const override;
  /// Its name, architecture, tokenizer and parts.
  Result<std::string> description() const override;
};

} // namespace paceline::models
