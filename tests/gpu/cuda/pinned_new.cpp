#include "tests/gpu/cuda/pinned_new.hpp"

#include "gpu/device.hpp"
#include "tests/gpu/support.hpp"

#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

namespace {

constexpr std::size_t block_bytes = std::size_t(1) << 30;
constexpr std::size_t header_bytes =
    64; // Holds the class; data behind it is as aligned as a Buffer.

/// Blocks of powers of two, each size with a list of those that were given back.
struct Arena {
  std::mutex mutex;
  std::byte* begin = nullptr;
  std::byte* next = nullptr;
  std::array<void*, 64> free{};

  bool holds(const void* p) const { return begin && p >= begin && p < begin + block_bytes; }

  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    const auto kind = std::size_t(std::bit_width(bytes + header_bytes - 1));
    if (void* again = free[kind]) {
      free[kind] = *static_cast<void**>(again);
      return again;
    }
    const std::size_t size = std::size_t(1) << kind;
    if (!begin || size > std::size_t(begin + block_bytes - next))
      return nullptr;
    *reinterpret_cast<std::size_t*>(next) = kind;
    void* data = next + header_bytes;
    next += size;
    return data;
  }
  void give_back(void* p) {
    const std::lock_guard lock(mutex);
    const auto kind = *reinterpret_cast<std::size_t*>(static_cast<std::byte*>(p) - header_bytes);
    *static_cast<void**>(p) = free[kind];
    free[kind] = p;
  }
};
constinit Arena arena;

} // namespace

void* operator new(std::size_t bytes) {
  void* p = arena.take(bytes);
  if (!p)
    p = std::malloc(bytes > 0 ? bytes : 1);
  if (!p)
    throw std::bad_alloc();
  return p;
}

void operator delete(void* p) noexcept {
  if (arena.holds(p))
    arena.give_back(p);
  else
    std::free(p);
}

void operator delete(void* p, std::size_t) noexcept {
  operator delete(p);
}

namespace paceline::gpu::testing {

void pin_new_memory() {
  static std::shared_ptr<Buffer> block;
  const auto device = open_device("cuda:0", {0, std::make_shared<RealTime>(), nullptr});
  if (!device || block)
    return;
  if (auto pinned = (*device)->allocate_shared(block_bytes)) {
    block = std::move(*pinned);
    const std::lock_guard lock(arena.mutex);
    arena.begin = arena.next = block->data();
  }
}

} // namespace paceline::gpu::testing
