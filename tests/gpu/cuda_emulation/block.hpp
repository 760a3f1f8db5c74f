// One block of a grid, or the blocks of a cluster together, their threads as fibers of one thread
// of the host.
//
// A fiber runs until it waits for others. A seed draws for every block who goes on next, and
// whether a warp runs as far ahead of the others as it gets or all go along together: where the
// result depends on an order that no barrier makes, tests see it change. Shared memory is filled
// with 0xFF at first, which reads as NaN or as a negative number. An asynchronous copy arrives as
// late as it may, when its thread waits for it, and until then its place holds 0xFF.
//
// What the hardware leaves undefined is a violation: threads that wait for each other at different
// places, at a barrier while others have ended, collectives of a warp of which lanes are missing,
// misaligned copies, or access to the shared memory of a block of the cluster that may not have
// begun, or may have ended. The device is then lost, as after a fault of a real one, and says why.
#pragma once

#include "tests/gpu/cuda_emulation/access.hpp"
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>

// These are the running fiber's. NOLINTBEGIN(readability-identifier-naming): CUDA's names.
extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
// NOLINTEND(readability-identifier-naming)

namespace cuda_emulation {

inline constexpr int lanes_of_warp = 32;
int lane(); ///< Of the fiber that runs.

void barrier();
std::byte* shared_memory(std::size_t bytes);

unsigned cluster_rank();
unsigned cluster_blocks();
void cluster_barrier();
/// Returns where something of this block's shared memory is in another's, for an access now.
std::byte* of_block(const void* shared, unsigned rank);

/// Largest value that lanes of a warp exchange.
inline constexpr std::size_t exchange_bytes = 64;
/// Where this lane puts what it gives, before it waits for the others. what: all must say the same.
std::byte* exchange_slot(const char* what, unsigned lanes);
/// [32] values, exchange_bytes apart, which stay until this lane's next exchange.
const std::byte* exchange_all();

template <class T>
class Exchanged {
public:
  explicit Exchanged(const std::byte* values) : values_(values) {}
  T operator[](int lane) const {
    T value{};
    std::memcpy(&value, values_ + std::size_t(lane) * exchange_bytes, sizeof value);
    return value;
  }

private:
  const std::byte* values_;
};
template <class T>
Exchanged<T> exchange(const char* what, unsigned lanes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= exchange_bytes);
  std::memcpy(exchange_slot(what, lanes), &value, sizeof value);
  return Exchanged<T>(exchange_all());
}

/// What lanes work out together from what they have just exchanged: room for it, the same on all
/// lanes until their next exchange but one. first: this lane comes first and has to fill it.
inline constexpr std::size_t warp_result_bytes = 32 * 16;
std::byte* warp_result(bool& first);

/// from: null for zeros.
void copy_async(void* shared, const void* from, std::size_t bytes);
void commit_copies();
void wait_for_copies(int pending);

/// Waits for the kernel ahead, in one that may begin before that has ended. Every thread has to.
void await_previous();

/// Looks from now on for accesses that nothing orders (races.hpp), in all grids.
void watch_accesses();
/// Counts from now on what watched grids do; null: no more. None may be running.
class TrafficCount;
void count_traffic(TrafficCount* into);
/// Tells of an access by the fiber that runs; does nothing if none does, or nobody watches.
/// place: that in the code.
void touch(const void* at, std::size_t bytes, Access how, const void* place);

/// What draws which results of inexact functions are another number than the host's (inexact.hpp).
std::uint32_t rounding_seed();
void set_rounding_seed(std::uint32_t seed);

struct Grid {
  dim3 blocks;
  dim3 threads; ///< Of a block.
  std::size_t shared_bytes = 0;
  bool early = false;   ///< May begin before the kernel ahead of it has ended.
  unsigned cluster = 1; ///< So many blocks, neighbours along x, run together.
  std::function<void()> kernel;
};

/// Runs each thread of a grid until it waits for the kernel ahead, which has not run yet. Returns a
/// checksum of what its asynchronous copies read.
std::uint64_t run_early(const Grid& grid);
/// Runs all clusters of a grid, one after another in an order of the seed's. seen: what `run_early`
/// returned, if it ran: the copies must read the same now, since they may do so at either time.
/// Returns what was violated.
std::optional<std::string> run_grid(const Grid& grid, unsigned seed,
                                    std::optional<std::uint64_t> seen);

} // namespace cuda_emulation
