// The blocks that a thread of the host runs, and what each thread of theirs waits for.
#pragma once

#include "tests/gpu/cuda_emulation/block.hpp"
#include "tests/gpu/cuda_emulation/fiber.hpp"
#include "tests/gpu/cuda_emulation/races.hpp"
#include "tests/gpu/cuda_emulation/traffic.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace cuda_emulation {

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};

/// Lanes that exchange, twice over: who is one exchange ahead does not overwrite what others read.
struct Warp {
  alignas(16) std::byte slots[2][lanes_of_warp][exchange_bytes];
  alignas(16) std::byte results[2][warp_result_bytes];
  bool worked_out[2];
  const char* what;
  int arrived;
  int turn;
  unsigned synchronized; ///< How often, by __syncwarp: other exchanges order no memory.
};

struct Thread {
  enum class State { ready, at_barrier, at_cluster_barrier, exchanging, done };
  Fiber fiber;
  State state = State::done;
  uint3 index{};
  int number = 0;           ///< Among those of the cluster.
  unsigned rank = 0;        ///< Of its block.
  std::vector<Copy> copies; ///< Under way, the oldest first,
  std::vector<int> groups;  ///< and how many of them each committed group has.
  int open = 0;             ///< Of them in none yet.
  bool awaited = false;     ///< Has waited for the kernel ahead.
};

/// A block of the cluster that runs.
struct Block {
  uint3 index{};
  std::unique_ptr<std::byte[]> shared;
  int at_barrier = 0;
  int done = 0;
  unsigned barriers = 0; ///< Passed.
  bool reached = false;  ///< By another block, since the cluster's last barrier.
};

/// The blocks of one thread of the host.
class Machine {
public:
  std::optional<std::string> run(const Grid& grid, unsigned seed,
                                 std::optional<std::uint64_t> seen);
  std::uint64_t run_early(const Grid& grid);

  // The following are for the fiber that runs.
  Thread& thread() { return *current_; }
  void barrier();
  void cluster_barrier();
  unsigned rank() const { return current_->rank; }
  unsigned blocks() const { return unsigned(blocks_.size()); }
  std::byte* of_block(const std::byte* shared, unsigned rank);
  void await_previous();
  void copy(const void* from, std::size_t bytes);
  void touch(const void* at, std::size_t bytes, Access how, const void* place);
  std::byte* shared(std::size_t bytes);
  std::byte* exchange_slot(const char* what, unsigned lanes);
  const std::byte* exchange_all();
  std::byte* result(bool& first);
  [[noreturn]] void violate(std::string what);

private:
  void begin(const Grid& grid);
  void begin_cluster(unsigned number);
  void shuffle_threads();
  void resume(Thread& thread);
  bool run_some(std::size_t first);
  void run_cluster();
  void release_if_all_wait(Block& block);
  void release_if_all_wait();
  std::string who_waits() const;
  bool is_own(const std::byte* at) const;
  Warp& warp() { return warps_[std::size_t(current_->number / lanes_of_warp)]; }
  Block& block() { return blocks_[current_->rank]; }
  int block_threads() const { return int(blockDim.x * blockDim.y * blockDim.z); }
  int threads() const { return block_threads() * int(blocks_.size()); }
  static void enter(void* self);

  const std::function<void()>* kernel_ = nullptr;
  bool awaits_ = false;          ///< Whether every thread has to wait for the kernel ahead.
  bool only_early_ = false;      ///< Runs what comes before that.
  std::uint64_t read_early_ = 0; ///< Checksum of what copies before it read.
  std::vector<std::unique_ptr<Thread>> pool_;
  std::vector<int> order_;
  int together_ = 1; ///< So many of them run as far as they get before others do: a warp, or all.
  std::vector<Warp> warps_;
  std::vector<Block> blocks_;     ///< Of the cluster.
  std::size_t shared_bytes_ = 0;  ///< Of each.
  unsigned cluster_barriers_ = 0; ///< Passed.
  Races races_;
  BlockTraffic traffic_;
  std::minstd_rand random_;
  Thread* current_ = nullptr;
  int done_ = 0;
  int at_cluster_barrier_ = 0;
  std::optional<std::string> violation_;
};

/// Returns this thread's.
Machine& machine();

} // namespace cuda_emulation
