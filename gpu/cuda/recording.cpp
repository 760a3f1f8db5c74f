#include "gpu/cuda/recording.hpp"

#include <algorithm>

namespace paceline::gpu::cuda {

void Recording::clear() {
  calls_.clear();
  memory_->release();
}

bool Recording::comes_again() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const Call* c) { return c->same(*c); });
}

bool Recording::operator==(const Recording& other) const {
  return std::equal(calls_.begin(), calls_.end(), other.calls_.begin(), other.calls_.end(),
                    [](const Call* a, const Call* b) { return a->same(*b); });
}

void Recording::issue(cudaStream_t stream, std::size_t first, std::size_t last) const {
  for (std::size_t i = first; i < last; ++i)
    check(calls_[i]->issue(stream), calls_[i]->name());
}

} // namespace paceline::gpu::cuda
