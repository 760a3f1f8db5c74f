#include "gpu/stacked_weight.hpp"

#include <algorithm>

namespace paceline::gpu {

int StackedWeight::outputs() const {
  int all = 0;
  for (const auto& part : parts_)
    all += part->outputs();
  return all;
}

std::size_t StackedWeight::bytes() const {
  std::size_t all = 0;
  for (const auto& part : parts_)
    all += part->bytes();
  return all;
}

bool StackedWeight::rounds_to_int8() const {
  return std::ranges::any_of(parts_, [](const auto& part) { return part->rounds_to_int8(); });
}

Result<std::shared_ptr<const Weight>> pack_stacked(std::span<const HostMatrix> parts,
                                                   const PackAlike& pack) {
  const auto unlike = [](const HostMatrix& a, const HostMatrix& b) {
    return a.format() != b.format() && std::min(a.format(), b.format()) >= WeightFormat::bf16 &&
           a.cols == b.cols;
  };
  std::vector<std::shared_ptr<const Weight>> stacked;
  while (!parts.empty()) {
    const auto end = std::ranges::adjacent_find(parts, unlike);
    const auto alike = std::size_t(end - parts.begin()) + (end == parts.end() ? 0 : 1);
    auto weight = pack(parts.first(alike));
    if (!weight || (stacked.empty() && alike == parts.size()))
      return weight;
    stacked.push_back(std::move(*weight));
    parts = parts.subspan(alike);
  }
  if (stacked.empty())
    return pack(parts);
  return std::make_shared<StackedWeight>(std::move(stacked));
}

std::vector<WeightFormat> formats_of(const Weight& weight) {
  std::vector<WeightFormat> all;
  for_each_part(weight, [&](const Weight& part, int) { all.push_back(part.format()); });
  return all;
}

} // namespace paceline::gpu
