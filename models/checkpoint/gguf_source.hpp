// A checkpoint in the layout of llama.cpp: one file, or several parts, with all that a model needs.
#pragma once

#include "models/checkpoint/source.hpp"

#include <optional>
#include <string>

namespace paceline::models {

/// Finds the GGUF file at a location: the file itself, or the only model in a folder that has no
/// config.json. None: it is a checkpoint of another kind. Error: the folder holds several models.
Result<std::optional<std::string>> find_gguf(const std::string& location);

class GgufSource final : public CheckpointSource {
public:
  explicit GgufSource(std::string file) : CheckpointSource(std::move(file)) {}

  Result<ModelConfig> config() const override;
  Result<std::unique_ptr<TensorSource>> tensors(const ModelConfig& config) const override;
  Result<std::unique_ptr<TensorSource>> mtp_tensors(const ModelConfig& config) const override;
  /// Reads tokenizer.ggml.*.
  Result<std::shared_ptr<const text::Tokenizer>> tokenizer() const override;
  /// Reads tokenizer.chat_template.
  Result<text::ChatTemplate> chat_template(const std::string& opening) const override;
  Result<text::ChatTemplate> chat_template_from(const std::string& file) const override;
  /// Reads general.sampling.*, and the tokens that end a text or a turn.
  Result<GenerationDefaults> generation_defaults() const override;
  /// Returns the file's own name, architecture, tokenizer and parts.
  Result<std::string> description() const override;
};

} // namespace paceline::models
