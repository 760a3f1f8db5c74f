#include "apps/laboratory/theory/memory.hpp"

#include "models/load.hpp"
#include "models/sources.hpp"
#include "models/stages.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::apps::theory {

Result<ModelBytes> model_bytes(const EngineOptions& engine) {
  return models::open_checkpoint(engine.target, "target")
      .and_then([&](const auto& source) {
        return models::parts_of(*source, 1, 1, models::load_formats(engine, "target"));
      })
      .map([](const std::vector<models::DevicePart>& parts) {
        return ModelBytes{double(parts.front().weight_bytes), double(parts.front().token_bytes)};
      });
}

std::int64_t sequences_that_fit(double memory, const ModelBytes& model, int length) {
  const double left = std::max(0.0, memory - model.weights);
  return std::int64_t(std::floor(left / (length * model.token)));
}

double best_prompt_share(int chunk, std::int64_t sequences) {
  return double(chunk) / double(sequences - 1);
}

} // namespace paceline::apps::theory
