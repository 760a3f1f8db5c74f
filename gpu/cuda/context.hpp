// One GPU as this process uses it: the pool of all its memory, the upload of weights, and whether
// the GPU was lost. Each GPU has one object, however many devices were opened.
#pragma once

#include "gpu/cuda/handle.hpp"
#include "gpu/device.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>

namespace paceline::gpu::cuda {

/// A GPU's memory and state. All members may be called from any thread.
class Context : public std::enable_shared_from_this<Context> {
public:
  /// Returns the GPU's context: the same object as long as somebody holds it.
  static Result<std::shared_ptr<Context>> of(int index);
  explicit Context(int index); ///< Throws CudaError. Callers use `of` instead.

  int index() const { return index_; }
  const std::string& name() const { return name_; } ///< e.g. "cuda:0"
  DeviceMemory memory() const;

  /// Allocates zeroed memory of the GPU, aligned to 256 bytes. Waits for the context's own stream
  /// only.
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes);
  /// Allocates memory of the GPU that kernels of the peers read and write directly; null if one of
  /// them has no access to it. peers: indices; this GPU's own is ignored.
  Result<std::shared_ptr<Buffer>> allocate_reached_by(std::set<int> peers, std::size_t bytes);
  /// Returns whether this is the GPU's own memory, in one of the context's buffers.
  bool holds(const void* memory) const;
  /// Allocates zeroed memory of the host that every GPU reads and writes.
  Result<std::shared_ptr<Buffer>> allocate_pinned(std::size_t bytes);

  /// Writes bytes [first, first + piece.size()) of the uploaded data to `piece`.
  using Fill = std::function<void(std::size_t first, std::span<std::byte> piece)>;
  /// Fills `to` piece by piece, each while the one before it is copied. granularity: pieces begin
  /// at multiples of it.
  Result<void> upload(Buffer& to, std::size_t granularity, const Fill& fill);

  /// What became of the pieces that came again (Graphs).
  struct GraphCounts {
    std::atomic<std::size_t> made = 0;
    std::atomic<std::size_t> failed = 0; ///< Captures; their pieces run call by call.
    std::atomic<std::size_t> launched = 0;
  };
  GraphCounts& graphs() { return graphs_; }
  /// Sets where `warn` writes: what a device of this GPU was opened with last.
  void log_to(base::Log log);
  /// Says what went wrong, but fails nobody.
  void warn(const std::string& message) const;

  /// Checks, after a failed call on this GPU, whether it still works. A sticky error makes it lost
  /// for good, since CUDA recovers only in a new process.
  void examine();
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  Error lost_error() const;

private:
  friend class DeviceBuffer;
  Result<std::shared_ptr<Buffer>> allocate_from(cudaMemPool_t pool, std::size_t bytes);
  bool reserve(std::size_t bytes);
  void release(void* memory, std::size_t bytes);
  Error error_of(const CudaError& e, std::size_t bytes);
  Error too_little(std::size_t bytes) const;

  const int index_;
  const std::string name_;
  /// Whether new memory is cleared. Where the environment has PACELINE_CUDA_FRESH_MEMORY it is not,
  /// so that who reads what nobody wrote is found: by compute-sanitizer's initcheck on a GPU, by
  /// NaN on an emulated one.
  const bool clears_;
  std::size_t limit_ = 0; ///< Bytes that the pool may hand out.
  mutable std::mutex mutex_;
  std::size_t used_ = 0;
  std::map<const std::byte*, std::size_t> lent_; ///< Memory that buffers hold, with its bytes.
  Pool pool_;
  /// A pool for each set of peers that was asked for, so that they do not reach the rest of the
  /// memory; null: one of them has no access.
  std::map<std::set<int>, Pool> shared_pools_;
  Stream stream_; ///< The stream of allocations and of the filling of new memory.
  std::atomic<bool> lost_{false};
  GraphCounts graphs_;
  base::Log log_; ///< With the mutex.

  struct Piece {
    PinnedMemory memory;
    Event copied;
  };
  std::mutex uploading_;
  std::array<Piece, 2> pieces_; ///< Made by the first upload.
  std::size_t piece_bytes_ = 0;
};

} // namespace paceline::gpu::cuda
