// Where a model comes from. Whatever is above asks these questions only, so that another format of
// files is another source.
#pragma once

#include "models/checkpoint/tensor_source.hpp"
#include "models/config.hpp"
#include "models/model.hpp"
#include "paceline/error.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

#include <memory>
#include <string>

namespace paceline::models {

/// Each question reads what it needs when it is asked. Threads: all members from any.
class CheckpointSource {
public:
  explicit CheckpointSource(std::string location) : location_(std::move(location)) {}
  virtual ~CheckpointSource() = default;

  /// Where it is, such as a folder's path.
  const std::string& location() const { return location_; }

  virtual Result<ModelConfig> config() const = 0;
  /// config: this source's own.
  virtual Result<std::unique_ptr<TensorSource>> tensors(const ModelConfig& config) const = 0;
  virtual Result<std::shared_ptr<const text::Tokenizer>> tokenizer() const = 0;
  /// The plain format, which puts `opening` before the text, where the model has none of its own.
  virtual Result<text::ChatTemplate> chat_template(const std::string& opening) const = 0;
  /// The template in another file, for this model's special tokens.
  virtual Result<text::ChatTemplate> chat_template_from(const std::string& file) const;
  virtual Result<GenerationDefaults> generation_defaults() const = 0;
  /// What else its file says of itself, for people; empty: nothing.
  virtual Result<std::string> description() const { return std::string(); }

  /// The model, packed for `device`: a transformer of this configuration and these tensors, unless
  /// the source knows better.
  virtual Result<std::shared_ptr<const Model>> load(std::shared_ptr<gpu::Device> device,
                                                    const LoadOptions& options) const;
  /// The same in stages, one for each device, in the order in which a pass goes through them. A
  /// pass over all of them gives the bits that the model on one such device gives.
  virtual Result<std::vector<std::shared_ptr<const Model>>>
  load_stages(std::span<const std::shared_ptr<gpu::Device>> devices,
              const LoadOptions& options) const;

private:
  std::string location_;
};

/// Whether `context` positions, which the model at `location` has, are those that are needed.
Result<void> check_context(const std::string& location, int context, const LoadOptions& options);

} // namespace paceline::models
