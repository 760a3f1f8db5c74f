// Weights of several formats, whatever device they lie on.
#pragma once

#include "gpu/tensor.hpp"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace paceline::gpu {

/// Matrices one below the other whose formats differ: parts, each packed as a weight of its own.
class StackedWeight final : public Weight {
public:
  explicit StackedWeight(std::vector<std::shared_ptr<const Weight>> parts)
      : parts_(std::move(parts)) {}

  int outputs() const override;
  int inputs() const override { return parts_.front()->inputs(); }
  WeightFormat format() const override { return parts_.front()->format(); }
  std::size_t bytes() const override;
  bool rounds_to_int8() const override;

  const std::vector<std::shared_ptr<const Weight>>& parts() const { return parts_; }

private:
  std::vector<std::shared_ptr<const Weight>> parts_; ///< None is stacked.
};

/// Packs matrices one below the other by `pack`, which takes equal formats; into a StackedWeight if
/// formats differ whose rows are all rounded.
using PackAlike = std::function<Result<std::shared_ptr<const Weight>>(std::span<const HostMatrix>)>;
Result<std::shared_ptr<const Weight>> pack_stacked(std::span<const HostMatrix> parts,
                                                   const PackAlike& pack);

/// Calls f(part, first) for each part of a weight and the number of its first output. A weight that
/// is not stacked is one part.
template <class F>
void for_each_part(const Weight& weight, const F& f) {
  const auto* stacked = dynamic_cast<const StackedWeight*>(&weight);
  if (!stacked)
    return f(weight, 0);
  int first = 0;
  for (const auto& part : stacked->parts()) {
    f(*part, first);
    first += part->outputs();
  }
}

/// Returns the formats of a weight's outputs, from the first on, each run of equal ones once.
std::vector<WeightFormat> formats_of(const Weight& weight);

} // namespace paceline::gpu
