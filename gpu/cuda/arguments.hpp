// The arguments and results of a piece's kernels: pairs of pinned memory on the host and its twin
// on the GPU.
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/recording.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <type_traits>
#include <vector>

namespace paceline::gpu::cuda {

/// An array of `count` elements on both sides.
template <class T>
struct Twin {
  T* host = nullptr;
  T* device = nullptr;
  std::size_t count = 0;

  T& operator[](std::size_t i) const { return host[i]; }
};

/// Memory for a piece's arguments and results. Pairs are taken and written; all that a piece takes
/// is copied to the GPU at once when the recording is issued, before whatever is recorded after the
/// first `take`. `fetch` copies a pair back, in the recording's order; results that only the host
/// reads are written to its side by the kernel, which saves that copy. `begin`, called when the
/// last piece is done, frees everything; the next piece may still read what that one left on the
/// GPU. If a piece needs more than there is, more is allocated and kept, so a steady round
/// allocates nothing.
///
/// A pair takes a power of two of bytes. So data that grows from round to round (page tables,
/// histories) seldom moves the pairs after it, and the same operations mostly have the same
/// addresses. All members are called on the lane's thread and throw CudaError or std::bad_alloc.
class Arguments {
public:
  Arguments(std::shared_ptr<Context> context, Recording& recording)
      : context_(std::move(context)), recording_(recording) {}

  void begin();
  /// Takes a pair, zeroed on the host.
  template <class T>
  Twin<T> take(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    const Twin<std::byte> bytes = take_bytes(count * sizeof(T));
    Twin<T> twin{reinterpret_cast<T*>(bytes.host), reinterpret_cast<T*>(bytes.device), count};
    std::uninitialized_fill_n(twin.host, count, T{});
    return twin;
  }
  /// Copies `values` to a new pair; returns where the GPU will have them.
  template <class T>
  const T* put(std::span<const T> values) {
    const Twin<std::byte> bytes = take_bytes(values.size_bytes());
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(bytes.host));
    return reinterpret_cast<const T*>(bytes.device);
  }
  template <class T>
  void fetch(const Twin<T>& twin) {
    if (twin.count > 0)
      recording_.add(
          Copy("results", twin.host, twin.device, twin.count * sizeof(T), cudaMemcpyDeviceToHost));
  }

private:
  struct Block {
    std::shared_ptr<Buffer> host;
    std::shared_ptr<Buffer> device;
  };
  Twin<std::byte> take_bytes(std::size_t bytes);
  Block allocate(std::size_t bytes);

  std::shared_ptr<Context> context_;
  Recording& recording_;
  std::vector<Block> blocks_;   ///< The last is in use; those before it belong to this piece, too.
  std::vector<Block> outgrown_; ///< Outgrown by the last piece; the next may be running.
  std::size_t used_ = 0;        ///< Bytes used of the last block.
  Copy* sent_ = nullptr;        ///< Copies what was taken from the last block; null: nothing.
};

/// Memory of the GPU that kernels of a piece use one after another; it grows and never shrinks.
/// Memory that was outgrown stays until `begin`, since kernels may still use it.
class DeviceScratch {
public:
  /// peers: other GPUs that shall reach the memory, if they can reach this one's at all.
  explicit DeviceScratch(std::shared_ptr<Context> context, std::set<int> peers = {})
      : context_(std::move(context)), peers_(std::move(peers)) {}
  void begin() { outgrown_.clear(); }
  std::byte* at_least(std::size_t bytes);

private:
  std::shared_ptr<Buffer> allocate(std::size_t bytes) const;

  std::shared_ptr<Context> context_;
  std::set<int> peers_;
  std::shared_ptr<Buffer> buffer_;
  std::vector<std::shared_ptr<Buffer>> outgrown_;
};

} // namespace paceline::gpu::cuda
