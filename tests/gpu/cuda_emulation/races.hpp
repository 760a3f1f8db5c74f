// Which accesses of a grid nothing orders. Kernels that are compiled with -fsanitize=thread say of
// each access what it touches (watched.cpp), and every byte remembers who wrote and who read it
// last. Two accesses of different threads to one byte, of which one writes, are ordered by
// __syncthreads between them, or within a warp by __syncwarp; nothing orders two blocks. That is
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

namespace cuda_emulation {

/// The accesses of one grid. All members are called by the thread that runs it.
class Races {
public:
  /// When a thread of the block touches something.
  struct Moment {
    unsigned thread;        ///< In its block,
    unsigned warp;          ///< and its warp.
    unsigned barriers;      ///< That the block has passed,
    unsigned warp_barriers; ///< and the thread's warp.
  };

  void begin_grid();
  /// shared: the block's memory, of which the block before it is forgotten.
  void begin_block(std::span<const std::byte> shared, unsigned number);
  /// Remembers an access; returns what is wrong with it.
  std::optional<std::string> touch(const std::byte* at, std::size_t bytes, Access how,
                                   const Moment& now);

private:
  /// Threads that did the same, none of them before another in any order that is known.
  struct Trace {
    enum class Of : std::uint8_t { nobody, thread, warp, block, blocks };
    std::uint32_t block = 0;
    std::uint32_t barriers = 0;
    std::uint32_t warp_barriers = 0;
    std::uint16_t thread = 0; ///< Of these, any one,
    std::uint16_t warp = 0;   ///< and its warp.
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
  void remember(Byte& byte, Access how, const Moment& now) const;

  std::uint64_t grid_ = 0;
  std::uint32_t block_ = 0;
  std::span<const std::byte> shared_;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::uintptr_t last_number_ = 0; ///< Of the page that was looked up last.
  Page* last_ = nullptr;
};

} // namespace cuda_emulation
