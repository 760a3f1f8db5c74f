#include "models/checkpoint/source.hpp"

#include "models/checkpoint/chat_template_file.hpp"
#include "models/transformer.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

namespace paceline::models {

Result<text::ChatTemplate> CheckpointSource::chat_template_from(const std::string& file) const {
  return read_chat_template(file, {});
}

Result<std::shared_ptr<const Model>> CheckpointSource::load(std::shared_ptr<gpu::Device> device,
                                                            const LoadOptions& options) const {
  return load_transformer(*this, std::move(device), options);
}

Result<std::vector<std::shared_ptr<const Model>>>
CheckpointSource::load_stages(std::span<const std::shared_ptr<gpu::Device>> devices,
                              const LoadOptions& options) const {
  return load_transformer(*this, devices, options);
}

Result<void> check_context(const std::string& location, int context, const LoadOptions& options) {
  if (options.positions_needed <= context)
    return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("EngineOptions::max_model_len is {}, and {} has a context of {} tokens",
                          options.positions_needed, text::shown_path(location), context),
              fmt::format("give at most {}", context));
}

} // namespace paceline::models
