// A checkpoint as the Hugging Face hub has it: a folder of JSON files and safetensors.
#pragma once

#include "models/checkpoint/source.hpp"

#include <boost/json/object.hpp>
#include <optional>
#include <string>

namespace paceline::models {

class FolderSource final : public CheckpointSource {
public:
  explicit FolderSource(std::string folder) : CheckpointSource(std::move(folder)) {}

  /// config.json.
  Result<ModelConfig> config() const override;
  /// model.safetensors, or the shards that model.safetensors.index.json names.
  Result<std::unique_ptr<TensorSource>> tensors(const ModelConfig& config) const override;
  /// tokenizer.json.
  Result<std::shared_ptr<const text::Tokenizer>> tokenizer() const override;
  /// chat_template.jinja, chat_template.json, or what tokenizer_config.json says.
  Result<text::ChatTemplate> chat_template(const std::string& opening) const override;
  Result<text::ChatTemplate> chat_template_from(const std::string& path) const override;
  /// generation_config.json, or config.json's ids where it is absent; where neither names an end of
  /// the text, the tokenizer's.
  Result<GenerationDefaults> generation_defaults() const override;

private:
  std::optional<TokenId> tokenizers_end() const;
  std::string file(const char* name) const { return location() + "/" + name; }
};

/// What a tokenizer_config.json calls its special token `name`: a text, or an object that has it.
std::optional<std::string> special_token(const boost::json::object& config, const char* name);

} // namespace paceline::models
