// Device memory is memory of the host, each allocation one of its own, so that an address sanitizer
// watches its bounds. It holds 0xFF at first. Kernels reach all memory of the host, as on systems
// with heterogeneous memory management: tests hand in what lies on their heap. An asynchronous copy
// does not: of pageable memory it would be no copy at a moment of the stream's, and in a graph that
// of a moment long past.
#include "tests/gpu/cuda_emulation/state.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

using Devices = std::set<int>;

struct CUmemPool_st {
  int device = 0;
  std::shared_ptr<Devices> granted = std::make_shared<Devices>();
};

namespace cuda_emulation {
namespace {

constexpr std::size_t alignment = 256;

struct Allocation {
  std::size_t bytes = 0;
  int device = 0;                         ///< -1: pinned memory of the host.
  std::shared_ptr<const Devices> granted; ///< Others that have access; null: none.
};

struct Memory {
  std::mutex mutex;
  std::map<std::uintptr_t, Allocation> allocations; ///< By first address.
  std::map<std::uintptr_t, std::size_t> registered; ///< Of the host.
  std::map<int, std::size_t> used;                  ///< By device.
};
Memory& memory() {
  static Memory memory;
  return memory;
}

std::uintptr_t address(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

cudaError_t allocate(void** to, std::size_t bytes, int device,
                     std::shared_ptr<const Devices> granted = nullptr) {
  *to = nullptr;
  if (const cudaError_t error = no_capture())
    return error;
  if (bytes == 0)
    return cudaSuccess;
  std::size_t total = 0;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    total = s.options.memory;
  }
  state().allocations.fetch_add(1);
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (device >= 0 && (bytes > total || m.used[device] > total - bytes))
    return remember(cudaErrorMemoryAllocation);
  if (posix_memalign(to, alignment, bytes) != 0)
    return remember(cudaErrorMemoryAllocation);
  std::memset(*to, 0xFF, bytes);
  if (device >= 0)
    m.used[device] += bytes;
  m.allocations[address(*to)] = {bytes, device, std::move(granted)};
  return cudaSuccess;
}

cudaError_t release(void* p) {
  if (const cudaError_t error = no_capture())
    return error;
  if (!p)
    return cudaSuccess;
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto found = m.allocations.find(address(p));
  if (found == m.allocations.end())
    return remember(cudaErrorInvalidValue);
  if (found->second.device >= 0)
    m.used[found->second.device] -= found->second.bytes;
  m.allocations.erase(found);
  std::free(p);
  return cudaSuccess;
}

/// What an address lies in; null: nothing that was allocated. With the lock.
const std::pair<const std::uintptr_t, Allocation>* allocation_of(const Memory& m, const void* p) {
  const auto next = m.allocations.upper_bound(address(p));
  if (next == m.allocations.begin())
    return nullptr;
  const auto& found = *std::prev(next);
  return address(p) < found.first + found.second.bytes ? &found : nullptr;
}

enum class Kind { pageable, pinned, device, past_its_end };

Kind kind_of(const void* p, std::size_t bytes) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (const auto* in = allocation_of(m, p)) {
    if (address(p) + bytes > in->first + in->second.bytes)
      return Kind::past_its_end;
    return in->second.device < 0 ? Kind::pinned : Kind::device;
  }
  auto host = m.registered.upper_bound(address(p));
  if (host != m.registered.begin() && address(p) < (--host)->first + host->second)
    return Kind::pinned;
  return Kind::pageable;
}

bool fits(cudaMemcpyKind kind, Kind to, Kind from) {
  if (to == Kind::past_its_end || from == Kind::past_its_end)
    return false;
  const bool to_device = to == Kind::device;
  const bool from_device = from == Kind::device;
  switch (kind) { // Pinned memory is the device's, too.
  case cudaMemcpyHostToHost: return !to_device && !from_device;
  case cudaMemcpyHostToDevice: return to != Kind::pageable && !from_device;
  case cudaMemcpyDeviceToHost: return !to_device && from != Kind::pageable;
  case cudaMemcpyDeviceToDevice: return to != Kind::pageable && from != Kind::pageable;
  case cudaMemcpyDefault: return true;
  }
  return false;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  const int device = device_of(stream);
  if (is_lost(device))
    return remember(cudaErrorLaunchFailure);
  if (!fits(kind, kind_of(to, bytes), kind_of(from, bytes)))
    return remember(cudaErrorInvalidValue);
  append(stream, [=] {
    if (!is_lost(device))
      std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}

} // namespace

bool is_allocated(const void* p) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  return allocation_of(m, p) != nullptr;
}

bool reaches(int device, const void* p) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto* in = allocation_of(m, p);
  return !in || in->second.device < 0 || in->second.device == device ||
         (in->second.granted && in->second.granted->contains(device));
}

} // namespace cuda_emulation

using namespace cuda_emulation;

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  if (const cudaError_t error = usable())
    return error;
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto* in = allocation_of(m, p);
  *attributes = {};
  if (in)
    *attributes = {in->second.device < 0 ? cudaMemoryTypeHost : cudaMemoryTypeDevice,
                   std::max(in->second.device, 0)};
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** to, std::size_t bytes) {
  if (const cudaError_t error = usable())
    return error;
  return allocate(to, bytes, current_device());
}

cudaError_t cudaFree(void* p) {
  if (!p)
    return cudaSuccess;
  drain_device(current_device());
  const cudaError_t error = release(p);
  return error ? error : usable();
}

cudaError_t cudaMallocAsync(void** to, std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = usable())
    return error;
  return allocate(to, bytes, device_of(stream));
}

cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  append(stream, [p] { (void)release(p); });
  return is_lost(device_of(stream)) ? remember(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (const cudaError_t error = usable())
    return error;
  *pool = new CUmemPool_st{properties->location.id};
  return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  delete pool;
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return usable();
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void* value) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  *static_cast<std::uint64_t*>(value) = m.used[pool->device];
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access,
                                 std::size_t count) {
  if (const cudaError_t error = usable())
    return error;
  if (!state().options.peers || !state().options.pool_access)
    return remember(cudaErrorInvalidDevice);
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  for (std::size_t i = 0; i < count; ++i)
    pool->granted->insert(access[i].location.id);
  return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  return usable();
}

cudaError_t cudaMallocFromPoolAsync(void** to, std::size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t) {
  if (const cudaError_t error = usable())
    return error;
  return allocate(to, bytes, pool->device, pool->granted);
}

cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  if (const cudaError_t error = usable())
    return error;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    *total = s.options.memory;
  }
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  *available = *total - std::min(*total, m.used[current_device()]);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** to, std::size_t bytes, unsigned) {
  if (const cudaError_t error = usable())
    return error;
  return allocate(to, bytes, -1);
}

cudaError_t cudaFreeHost(void* p) {
  return release(p);
}

cudaError_t cudaHostRegister(void* p, std::size_t bytes, unsigned) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  m.registered[address(p)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* p) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  return m.registered.erase(address(p)) > 0 ? cudaSuccess : remember(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind_of(to, bytes) == Kind::pageable || kind_of(from, bytes) == Kind::pageable) {
    fail(device_of(stream), "an asynchronous copy from or to pageable memory of the host");
    return remember(cudaErrorLaunchFailure);
  }
  return copy(to, from, bytes, kind, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = no_capture())
    return error;
  if (const cudaError_t error = copy(to, from, bytes, kind, nullptr))
    return error;
  return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  const int device = device_of(stream);
  if (is_lost(device))
    return remember(cudaErrorLaunchFailure);
  if (kind_of(p, bytes) == Kind::past_its_end)
    return remember(cudaErrorInvalidValue);
  append(stream, [=] {
    if (!is_lost(device))
      std::memset(p, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemset(void* p, int value, std::size_t bytes) {
  if (const cudaError_t error = cudaMemsetAsync(p, value, bytes, nullptr))
    return error;
  return cudaStreamSynchronize(nullptr);
}
