#include "models/sources.hpp"

#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/paths.hpp"
#include "models/synthetic/scripted.hpp"

namespace paceline::models {

Result<std::string> resolve_model_path(const std::string& name, const std::string& role) {
  return is_scripted(name) ? name : find_checkpoint(name, role);
}

Result<std::shared_ptr<const CheckpointSource>> checkpoint_at(const std::string& location) {
  if (is_scripted(location))
    return make_scripted_source(location);
  return std::make_shared<const FolderSource>(location);
}

Result<std::shared_ptr<const CheckpointSource>> open_checkpoint(const std::string& name,
                                                                const std::string& role) {
  return resolve_model_path(name, role).and_then(checkpoint_at);
}

LoadOptions load_formats(const EngineOptions& options, const std::string& role) {
  const auto quantization = [&](const std::optional<WeightFormat>& format) {
    return format ? std::optional(gpu::Quantization{*format, options.weight_scales}) : std::nullopt;
  };
  LoadOptions load;
  load.dtype = options.dtype;
  load.blocks = quantization(role == "draft" ? options.draft_weights : options.weights);
  load.head = quantization(options.head_weights);
  return load;
}

Result<std::shared_ptr<const Model>> load_model(const std::string& location,
                                                std::shared_ptr<gpu::Device> device,
                                                const LoadOptions& options) {
  return checkpoint_at(location).and_then(
      [&](const auto& source) { return source->load(std::move(device), options); });
}

} // namespace paceline::models
