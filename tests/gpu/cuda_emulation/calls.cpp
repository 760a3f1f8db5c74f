// What kernels call: what the fiber that runs waits for, exchanges and copies.
#include "tests/gpu/cuda_emulation/machine.hpp"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

namespace cuda_emulation {

void Machine::await_previous() {
  if (std::exchange(current_->awaited, true))
    violate("a thread waits twice for the kernel ahead");
  if (only_early_)
    current_->fiber.yield(); // For ever.
}

// A sum of hashes, so that threads may come in any order.
void Machine::copy(const void* from, std::size_t bytes) {
  if (!awaits_ || current_->awaited || !from)
    return;
  const std::string_view read(static_cast<const char*>(from), bytes);
  read_early_ += std::hash<std::string_view>()(read) * 2 + 1;
}

void Machine::violate(std::string what) {
  violation_ = std::move(what) + " (thread " + std::to_string(current_->number) + " of block " +
               std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
               std::to_string(blockIdx.z) + ")";
  current_->fiber.yield(); // For ever.
  std::abort();
}

void Machine::barrier() {
  if (awaits_ && !current_->awaited)
    violate("a barrier before the kernel ahead has ended");
  current_->state = Thread::State::at_barrier;
  ++block().at_barrier;
  release_if_all_wait(block());
  current_->fiber.yield();
}

void Machine::cluster_barrier() {
  if (awaits_ && !current_->awaited)
    violate("a barrier before the kernel ahead has ended");
  current_->state = Thread::State::at_cluster_barrier;
  ++at_cluster_barrier_;
  release_if_all_wait();
  current_->fiber.yield();
}

std::byte* Machine::of_block(const std::byte* shared, unsigned rank) {
  const std::ptrdiff_t place = shared - block().shared.get();
  if (place < 0 || place >= std::ptrdiff_t(shared_bytes_) || rank >= blocks_.size())
    violate("no shared memory of a block of the cluster");
  Block& other = blocks_[rank];
  if (rank != current_->rank) {
    if (cluster_barriers_ == 0)
      violate("the shared memory of a block that may not have begun");
    if (other.done == block_threads())
      violate("the shared memory of a block that has ended");
    other.reached = true;
  }
  return other.shared.get() + place;
}

std::byte* Machine::shared(std::size_t bytes) {
  if (bytes > shared_bytes_)
    violate("shared memory of " + std::to_string(bytes) + " bytes in a launch with " +
            std::to_string(shared_bytes_));
  return block().shared.get();
}

std::byte* Machine::exchange_slot(const char* what, unsigned lanes) {
  if (lanes != ~0u)
    violate(std::string(what) + " of some lanes only is not emulated");
  Warp& w = warp();
  if (w.arrived > 0 && w.what != what && std::string_view(w.what) != what)
    violate(std::string("lanes of a warp part: ") + w.what + " and " + what);
  w.what = what;
  return w.slots[w.turn][current_->number % lanes_of_warp];
}

const std::byte* Machine::exchange_all() {
  Warp& w = warp();
  const int turn = w.turn;
  if (++w.arrived < lanes_of_warp) {
    current_->state = Thread::State::exchanging;
    current_->fiber.yield();
  } else {
    w.arrived = 0;
    w.turn = 1 - turn;
    if (std::string_view(w.what) == "__syncwarp")
      ++w.synchronized;
    w.worked_out[turn] = false;
    const auto number = std::size_t(current_->number);
    const std::size_t first = number - number % lanes_of_warp;
    for (std::size_t l = 0; l < lanes_of_warp; ++l)
      pool_[first + l]->state = Thread::State::ready;
  }
  return w.slots[turn][0];
}

std::byte* Machine::result(bool& first) {
  Warp& w = warp();
  // The results are those of the last exchange that all lanes have come to.
  const int turn = 1 - w.turn;
  first = !std::exchange(w.worked_out[turn], true);
  return w.results[turn];
}

int lane() {
  return machine().thread().number % lanes_of_warp;
}
void barrier() {
  machine().barrier();
}
std::byte* shared_memory(std::size_t bytes) {
  return machine().shared(bytes);
}
unsigned cluster_rank() {
  return machine().rank();
}
unsigned cluster_blocks() {
  return machine().blocks();
}
void cluster_barrier() {
  machine().cluster_barrier();
}
std::byte* of_block(const void* shared, unsigned rank) {
  return machine().of_block(static_cast<const std::byte*>(shared), rank);
}
std::byte* exchange_slot(const char* what, unsigned lanes) {
  return machine().exchange_slot(what, lanes);
}
const std::byte* exchange_all() {
  return machine().exchange_all();
}
std::byte* warp_result(bool& first) {
  return machine().result(first);
}

void await_previous() {
  machine().await_previous();
}

void copy_async(void* shared, const void* from, std::size_t bytes) {
  const auto misaligned = [bytes](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % bytes != 0;
  };
  if (misaligned(shared) || (from && misaligned(from)))
    machine().violate("a misaligned asynchronous copy");
  std::memset(shared, 0xFF, bytes);
  machine().copy(from, bytes);
  const void* const place = __builtin_return_address(0);
  touch(shared, bytes, Access::copy_begins, place);
  if (from)
    touch(from, bytes, Access::read, place);
  Thread& thread = machine().thread();
  thread.copies.push_back({shared, from, bytes});
  ++thread.open;
}

void commit_copies() {
  Thread& thread = machine().thread();
  thread.groups.push_back(std::exchange(thread.open, 0));
}

void wait_for_copies(int pending) {
  Thread& thread = machine().thread();
  const auto waited = std::max<std::ptrdiff_t>(std::ssize(thread.groups) - pending, 0);
  const auto last_group = thread.groups.begin() + waited;
  const auto last =
      thread.copies.begin() + std::accumulate(thread.groups.begin(), last_group, std::ptrdiff_t(0));
  for (auto copy = thread.copies.begin(); copy != last; ++copy) {
    if (copy->from)
      std::memcpy(copy->to, copy->from, copy->bytes);
    else
      std::memset(copy->to, 0, copy->bytes);
    touch(copy->to, copy->bytes, Access::copy_arrives, nullptr);
  }
  thread.copies.erase(thread.copies.begin(), last);
  thread.groups.erase(thread.groups.begin(), last_group);
}

} // namespace cuda_emulation
