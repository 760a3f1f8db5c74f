// One GPU as this process uses it: the pool that all of its memory comes from, the way weights get
// there, and whether the GPU was lost. One object for each GPU, however many devices were opened.
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

/// Threads: all members from any.
class Context : public std::enable_shared_from_this<Context> {
public:
  /// The same object for as long as somebody holds it.
  static Result<std::shared_ptr<Context>> of(int index);
  explicit Context(int index); ///< Throws CudaError. Not for callers: `of`.

  int index() const { return index_; }
  const std::string& name() const { return name_; } ///< "cuda:0"
  DeviceMemory memory() const;

  /// Zeroed memory of the GPU, aligned to 256 bytes. Synchronises with its own stream only.
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes);
  /// The same, which kernels of other GPUs read and write directly; null where one of them has no
  /// access to this one's memory. peers: indices; this one's own is none.
  Result<std::shared_ptr<Buffer>> allocate_reached_by(std::set<int> peers, std::size_t bytes);
  /// Whether this is the GPU's own memory, in one of these buffers.
  bool holds(const void* memory) const;
  /// Zeroed memory of the host that every GPU reads and writes.
  Result<std::shared_ptr<Buffer>> allocate_pinned(std::size_t bytes);

  /// Writes the bytes [first, first + piece.size()) of what is uploaded into `piece`.
  using Fill = std::function<void(std::size_t first, std::span<std::byte> piece)>;
  /// Fills `to` piece by piece, each while the one before it is copied. granularity: pieces begin
  /// at multiples of it.
  Result<void> upload(Buffer& to, std::size_t granularity, const Fill& fill);

  /// After a call on this GPU failed: whether it answers still. An error that is sticky loses it,
  /// for good: CUDA has no way back but a new process.
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
  std::size_t limit_ = 0; ///< Bytes that the pool may hand out.
  mutable std::mutex mutex_;
  std::size_t used_ = 0;
  std::map<const std::byte*, std::size_t> lent_; ///< What buffers hold, and how many bytes.
  Pool pool_;
  /// A pool for each set of other GPUs that was asked for, so that the rest of the memory stays out
  /// of their reach; null: one of them has no access.
  std::map<std::set<int>, Pool> shared_pools_;
  Stream stream_; ///< Allocations, and what fills new memory.
  std::atomic<bool> lost_{false};

  struct Piece {
    PinnedMemory memory;
    Event copied;
  };
  std::mutex uploading_;
  std::array<Piece, 2> pieces_; ///< Made by the first upload.
  std::size_t piece_bytes_ = 0;
};

} // namespace paceline::gpu::cuda
