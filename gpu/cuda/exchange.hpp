// How shards on several GPUs give each other what they add to a sum. Bytes are moved, and nothing
// is added on the way: that is a kernel's of ours on each GPU (kernels::sum), so that the order of
// a sum is that of the shards, whatever moves them.
#pragma once

#include "gpu/cuda/handle.hpp"
#include "gpu/cuda/nccl.hpp"
#include "gpu/cuda/operations.hpp"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline::gpu::cuda {

/// A shard's stream, which is at a meeting of all.
struct Place {
  int device = 0;
  cudaStream_t stream = nullptr;
};

/// What is enqueued on all streams behind a meeting sees what was enqueued on any before it.
class Rendezvous {
public:
  explicit Rendezvous(std::vector<Place> places);
  void meet(); ///< Throws CudaError.

private:
  std::vector<Place> places_;
  std::vector<Event> arrived_;
};

/// Threads: the lane's.
class Exchanger {
public:
  virtual ~Exchanger() = default;
  /// Enqueues it on all streams: each shard's `all` has every shard's `own`, in their order, behind
  /// what was enqueued before. The same of each: `count`. Throws.
  virtual void exchange(std::span<const Exchange> shards) = 0;
  /// Throws where something that was enqueued has failed.
  virtual void check() {}
  /// What was enqueued ends soon, whether all take part or not. Nothing can be enqueued any more.
  virtual void abandon() noexcept {}
};

/// nccl: none: by copies from one GPU to the other, through the host where they have no link.
/// Throws.
std::unique_ptr<Exchanger> make_exchanger(const std::optional<Nccl>& nccl,
                                          std::vector<Place> places);

} // namespace paceline::gpu::cuda
