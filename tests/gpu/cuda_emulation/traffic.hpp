// What a kernel's accesses cost in sectors of global memory and in banks of shared memory. Lanes of
// a warp run one after the other here, so an instruction of the warp is put together again from its
// lanes: it is a place in the code, at each lane's n-th time there. That is exact where all lanes
// come to a place equally often, or leave a loop for good.
#pragma once

#include "tests/gpu/cuda_emulation/access.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace cuda_emulation {

/// All that the warps did at one place of the code.
struct Traffic {
  const void* place = nullptr; ///< Return address of the access.
  bool shared = false;         ///< Or in global memory.
  Access how = Access::read;
  std::uint64_t instructions = 0;
  std::uint64_t bytes = 0; ///< Distinct ones of each instruction.
  /// Sectors of 32 bytes; or of shared memory the passes over the banks, in each of which every
  /// bank of four bytes gives one word.
  std::uint64_t touched = 0;
  std::uint64_t least = 0; ///< How many would do.

  double excess() const { return double(touched) / double(least); }
};

/// Counts the traffic of grids, which may run on several streams.
class TrafficCount {
public:
  /// An access of a lane.
  struct Lane {
    const void* place;
    unsigned time; ///< So many times this lane has been there before.
    unsigned thread;
    bool shared;
    Access how;
    std::uintptr_t at;
    std::size_t bytes;
  };
  /// Adds the accesses of one block, whose order does not matter. What is not memory of a device or
  /// pinned is not counted: parameters, and what the emulation says of a thread.
  void add(std::vector<Lane> block, std::size_t shared_bytes);
  std::vector<Traffic> all() const;
  /// Most shared memory that a block had.
  std::size_t shared_bytes() const;

private:
  using Place = std::tuple<const void*, bool, Access>;
  void add_instruction(std::span<const Lane> lanes);

  mutable std::mutex mutex_;
  std::map<Place, Traffic> places_;
  std::size_t shared_bytes_ = 0;
};

/// Collects the accesses of one block.
class BlockTraffic {
public:
  void begin(std::span<const std::byte> shared);
  void touch(const std::byte* at, std::size_t bytes, Access how, unsigned thread,
             const void* place);
  void end(TrafficCount& into) { into.add(std::move(lanes_), shared_.size()); }

private:
  std::span<const std::byte> shared_;
  std::map<std::tuple<unsigned, const void*, Access>, unsigned> times_;
  std::vector<TrafficCount::Lane> lanes_;
};

} // namespace cuda_emulation
