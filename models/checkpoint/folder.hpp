// A checkpoint in the layout of the Hugging Face hub: a folder of JSON files and safetensors.
#pragma once

#include "models/checkpoint/source.hpp"

#include <boost/json/object.hpp>
#include <optional>
#include <string>

namespace paceline::models {

class FolderSource final : public CheckpointSource {
public:
  explicit FolderSource(std::string folder) : CheckpointSource(std::move(folder)) {}

  /// Reads config.json.
  Result<ModelConfig> config() const override;
  /// Opens model.safetensors, or the shards that model.safetensors.index.json names.
  Result<std::unique_ptr<TensorSource>> tensors(const ModelConfig& config) const override;
  Result<std::unique_ptr<TensorSource>> mtp_tensors(const ModelConfig& config) const override;
  /// Reads tokenizer.json.
  Result<std::shared_ptr<const text::Tokenizer>> tokenizer() const override;
  /// Reads chat_template.jinja, chat_template.json, or the template in tokenizer_config.json.
  Result<text::ChatTemplate> chat_template(const std::string& opening) const override;
  Result<text::ChatTemplate> chat_template_from(const std::string& path) const override;
  /// Reads generation_config.json, or the ids in config.json if there is none; if neither names an
  /// end of text, the tokenizer's counts.
  Result<GenerationDefaults> generation_defaults() const override;

private:
  std::optional<TokenId> tokenizers_end() const;
  std::string file(const char* name) const { return location() + "/" + name; }
};

/// Returns what a tokenizer_config.json calls its special token `name`: a text, or an object that
/// has it.
std::optional<std::string> special_token(const boost::json::object& config, const char* name);

} // namespace paceline::models
