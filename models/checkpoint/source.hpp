// The interface of a model's source. Code above asks only these questions, so that another file
// format is another source.
#pragma once

#include "models/checkpoint/tensor_source.hpp"
#include "models/config.hpp"
#include "paceline/error.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

#include <memory>
#include <string>

namespace paceline::models {

/// The source of a model. Each question reads what it needs when it is asked. Threads: all members
/// from any.
class CheckpointSource {
public:
  explicit CheckpointSource(std::string location) : location_(std::move(location)) {}
  virtual ~CheckpointSource() = default;

  /// Returns its place, such as a folder's path.
  const std::string& location() const { return location_; }

  virtual Result<ModelConfig> config() const = 0;
  /// config: this source's own.
  virtual Result<std::unique_ptr<TensorSource>> tensors(const ModelConfig& config) const = 0;
  /// Returns the tensors of the block that the checkpoint brings to draft for it (mtp.hpp), the
  /// model's own left out; null: it brings none.
  virtual Result<std::unique_ptr<TensorSource>> mtp_tensors(const ModelConfig& /*config*/) const {
    return nullptr;
  }
  virtual Result<std::shared_ptr<const text::Tokenizer>> tokenizer() const = 0;
  /// Returns the model's template, or the plain format, which puts `opening` before the text, if
  /// the model has none.
  virtual Result<text::ChatTemplate> chat_template(const std::string& opening) const = 0;
  /// Reads a template from another file, with this model's special tokens.
  virtual Result<text::ChatTemplate> chat_template_from(const std::string& file) const = 0;
  virtual Result<GenerationDefaults> generation_defaults() const = 0;
  /// Returns what else the file says about itself, for people; empty: nothing.
  virtual Result<std::string> description() const { return std::string(); }

private:
  std::string location_;
};

} // namespace paceline::models
