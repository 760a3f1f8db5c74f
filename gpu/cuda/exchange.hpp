// Exchange of the parts of sums among shards on several GPUs. It only moves bytes; our own kernel
// adds them on each GPU (kernels::sum), so that the order of a sum is that of the shards, whatever
// moves the bytes.
#pragma once

#include "gpu/cuda/handle.hpp"
#include "gpu/cuda/nccl.hpp"
#include "gpu/cuda/operations.hpp"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline::gpu::cuda {

/// A shard's stream, which takes part in meetings.
struct Place {
  int device = 0;
  cudaStream_t stream = nullptr;
};

/// A meeting of streams: work enqueued on any of them after it sees all work enqueued on any before
/// it.
class Rendezvous {
public:
  explicit Rendezvous(std::vector<Place> places);
  void meet(); ///< Throws CudaError.

private:
  std::vector<Place> places_;
  std::vector<Event> arrived_;
};

/// The exchange of the parts of sums. All members are called on the lane's thread.
class Exchanger {
public:
  virtual ~Exchanger() = default;
  /// Enqueues the exchange on all streams, after the work enqueued before: each shard's `all` gets
  /// every shard's `own`, in their order. All have the same `count`. Throws.
  virtual void exchange(std::span<const Exchange> shards) = 0;
  /// Throws if enqueued work has failed.
  virtual void check() {}
  /// Makes enqueued work end soon, whether all take part or not; nothing may be enqueued after it.
  virtual void abandon() noexcept {}
};

/// Makes an exchanger. nccl: none: copies from one GPU to the other, through the host if they have
/// no link. Throws.
std::unique_ptr<Exchanger> make_exchanger(const std::optional<Nccl>& nccl,
                                          std::vector<Place> places);

} // namespace paceline::gpu::cuda
