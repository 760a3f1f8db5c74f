// Which accesses of a grid nothing orders. Kernels that are compiled with -fsanitize=thread say of
// each access what it touches (watched.cpp), and every byte remembers who wrote and who read it
// last. Two accesses of different threads to one byte, of which one writes, are ordered by
// __syncthreads between them, within a warp by __syncwarp, and within a cluster by its barrier;
// nothing orders other blocks. That is
// exact: where an order of threads is drawn, a missing barrier shows only if a result changes.
#pragma once

#include "tests/gpu/cuda_emulation/access.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace cuda_emulation {

/// The accesses of one grid. All members are called by the thread that runs it.
class Races {
public:
  /// When a thread of the cluster touches something.
  struct Moment {
    unsigned thread;           ///< In its cluster,
    unsigned warp;             ///< its warp
    unsigned warp_barriers;    ///< and those that it has passed,
    unsigned block;            ///< its block
    unsigned barriers;         ///< and those that it has passed,
    unsigned cluster_barriers; ///< and those that its cluster has.
  };

  void begin_grid();
  void begin_cluster(unsigned number);
  /// Forgets what others did with a block's shared memory before it.
  void forget(std::span<const std::byte> shared);
  /// Remembers an access; returns what is wrong with it.
  std::optional<std::string> touch(const std::byte* at, std::size_t bytes, Access how,
                                   const Moment& now);

private:
  /// Threads that did the same, none of them before another in any order that is known.
  struct Trace {
    enum class Of : std::uint8_t { nobody, thread, warp, block, cluster, clusters };
    std::uint32_t cluster = 0;
    std::uint32_t cluster_barriers = 0;
    std::uint32_t barriers = 0;
    std::uint32_t warp_barriers = 0;
    std::uint16_t thread = 0; ///< Of these, any one,
    std::uint16_t warp = 0;   ///< its warp,
    std::uint8_t block = 0;   ///< and its block.
    Of of = Of::nobody;
  };
  struct Byte {
    Trace written;
    Trace read;
    bool atomic = false;    ///< How it was written.
    bool in_flight = false; ///< A copy is under way to it.
  };
  static constexpr std::size_t page_bytes = 256;
  struct Page {
    std::uint64_t grid = 0;
    std::array<Byte, page_bytes> bytes;
  };

  Trace trace_of(const Moment& now) const;
  bool ordered(const Trace& before, const Moment& now) const;
  static Trace joined(const Trace& before, const Trace& now);
  Byte& byte(const std::byte* at);
  const char* wrong(const Byte& byte, Access how, const Moment& now) const;
  std::string where(const std::byte* at) const;
  void remember(Byte& byte, Access how, const Moment& now) const;

  std::uint64_t grid_ = 0;
  std::uint32_t cluster_ = 0;
  std::vector<std::span<const std::byte>> shared_; ///< Of the cluster's blocks.
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::uintptr_t last_number_ = 0; ///< Of the page that was looked up last.
  Page* last_ = nullptr;
};

} // namespace cuda_emulation
