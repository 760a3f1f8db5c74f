#include "gpu/weight_formats.hpp"

#include "gpu/cpu/weight.hpp"

namespace paceline::gpu {

std::vector<WeightFormat> formats_of(const Weight& weight) {
  const auto* stacked = dynamic_cast<const cpu::StackedWeight*>(&weight);
  if (!stacked)
    return {weight.format()};
  std::vector<WeightFormat> all;
  for (const auto& part : stacked->parts())
    all.push_back(part->format());
  return all;
}

} // namespace paceline::gpu
