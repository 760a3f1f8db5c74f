#include "models/checkpoint/source.hpp"

#include "models/transformer.hpp"

namespace paceline::models {

Result<std::shared_ptr<const Model>> CheckpointSource::load(std::shared_ptr<gpu::Device> device,
                                                            const LoadOptions& options) const {
  return load_transformer(*this, std::move(device), options);
}

} // namespace paceline::models
