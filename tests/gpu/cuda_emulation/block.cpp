#include "tests/gpu/cuda_emulation/block.hpp"

#include "tests/gpu/cuda_emulation/fiber.hpp"
#include "tests/gpu/cuda_emulation/races.hpp"
#include "tests/gpu/cuda_emulation/traffic.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace cuda_emulation {
namespace {

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

Machine& machine() {
  thread_local Machine machine;
  return machine;
}

std::atomic<std::uint32_t> drawn_by = 1;
std::atomic<bool> watched = false;
std::atomic<TrafficCount*> counted = nullptr;
/// What runs a kernel on this thread just now whose accesses are watched.
constinit thread_local Machine* running = nullptr;

void Machine::enter(void* self) {
  (*static_cast<Machine*>(self)->kernel_)();
}

void Machine::begin(const Grid& grid) {
  gridDim = grid.blocks;
  blockDim = grid.threads;
  kernel_ = &grid.kernel;
  awaits_ = grid.early;
  read_early_ = 0;
  violation_.reset();
  shared_bytes_ = grid.shared_bytes;
  blocks_.resize(grid.cluster);
  for (Block& b : blocks_) // Exactly as large as asked for: an address sanitizer sees the end.
    b.shared = std::make_unique<std::byte[]>(shared_bytes_);
  while (pool_.size() < std::size_t(threads()))
    pool_.push_back(std::make_unique<Thread>());
  warps_.resize(std::size_t((threads() + lanes_of_warp - 1) / lanes_of_warp));
  order_.resize(std::size_t(threads()));
}

std::optional<std::string> Machine::run(const Grid& grid, unsigned seed,
                                        std::optional<std::uint64_t> seen) {
  begin(grid);
  races_.begin_grid();
  random_.seed(seed + 1);
  std::vector<unsigned> clusters(std::size_t(gridDim.x) * gridDim.y * gridDim.z / blocks_.size());
  std::iota(clusters.begin(), clusters.end(), 0u);
  std::shuffle(clusters.begin(), clusters.end(), random_);
  running = watched ? this : nullptr;
  for (const unsigned c : clusters) {
    begin_cluster(c);
    run_cluster();
    if (TrafficCount* const count = counted; running && count)
      traffic_.end(*count);
    if (violation_)
      break;
  }
  running = nullptr;
  blocks_.clear();
  if (!violation_ && seen && *seen != read_early_)
    violation_ = "a copy that may run before the kernel ahead has ended reads what that one writes";
  return violation_;
}

std::uint64_t Machine::run_early(const Grid& grid) {
  begin(grid);
  only_early_ = true;
  for (unsigned c = 0; c < gridDim.x * gridDim.y * gridDim.z / blocks_.size(); ++c) {
    begin_cluster(c);
    for (const int t : order_)
      resume(*pool_[std::size_t(t)]); // Until it waits; it is not resumed any more.
  }
  only_early_ = false;
  blocks_.clear();
  return read_early_;
}

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

/// Whether it is the fiber's stack, or the machine's own memory.
bool Machine::is_own(const std::byte* at) const {
  const auto in = [at](const void* first, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(first);
    return !std::less<>()(at, begin) && std::less<>()(at, begin + bytes);
  };
  return in(current_->fiber.stack(), Stack::bytes) ||
         in(warps_.data(), warps_.size() * sizeof(Warp));
}

void Machine::touch(const void* at, std::size_t bytes, Access how, const void* place) {
  const auto* first = static_cast<const std::byte*>(at);
  if (is_own(first))
    return;
  const auto number = unsigned(current_->number);
  const Races::Moment now{number,         number / lanes_of_warp, warp().synchronized,
                          current_->rank, block().barriers,       cluster_barriers_};
  if (const auto wrong = races_.touch(first, bytes, how, now))
    violate(*wrong);
  if (counted && blocks_.size() == 1) // Clusters are not counted.
    traffic_.touch(first, bytes, how, number, place);
}

void Machine::begin_cluster(unsigned number) {
  done_ = at_cluster_barrier_ = 0;
  cluster_barriers_ = 0;
  if (running)
    races_.begin_cluster(number);
  for (unsigned rank = 0; rank < blocks_.size(); ++rank) {
    Block& b = blocks_[rank];
    const unsigned n = number * unsigned(blocks_.size()) + rank;
    b.index = {n % gridDim.x, n / gridDim.x % gridDim.y, n / gridDim.x / gridDim.y};
    b.at_barrier = b.done = 0;
    b.barriers = 0;
    b.reached = false;
    std::memset(b.shared.get(), 0xFF, shared_bytes_);
    if (running)
      races_.forget({b.shared.get(), shared_bytes_});
    if (running && rank == 0)
      traffic_.begin({b.shared.get(), shared_bytes_});
  }
  for (Warp& w : warps_) {
    w.arrived = w.turn = 0;
    w.synchronized = 0;
  }
  shuffle_threads();
  for (int t = 0; t < threads(); ++t) {
    Thread& thread = *pool_[std::size_t(t)];
    thread.number = t;
    thread.rank = unsigned(t / block_threads());
    const unsigned own = unsigned(t % block_threads());
    thread.index = {own % blockDim.x, own / blockDim.x % blockDim.y, own / blockDim.x / blockDim.y};
    thread.copies.clear();
    thread.groups.clear();
    thread.open = 0;
    thread.awaited = false;
    thread.state = Thread::State::ready;
    thread.fiber.start(enter, this);
  }
}

void Machine::shuffle_threads() {
  std::iota(order_.begin(), order_.end(), 0);
  together_ = random_() % 2 == 0 ? lanes_of_warp : threads();
  for (auto first = order_.begin(); first != order_.end(); first += together_)
    std::shuffle(first, first + together_, random_);
  const int warps = std::max(threads() / together_, 1); // Of one order, turned about.
  std::rotate(order_.begin(), order_.begin() + int(random_() % unsigned(warps)) * together_,
              order_.end());
  if (random_() % 2 == 0)
    std::reverse(order_.begin(), order_.end());
}

void Machine::resume(Thread& thread) {
  current_ = &thread;
  threadIdx = thread.index;
  blockIdx = block().index;
  thread.fiber.resume();
}

bool Machine::run_some(std::size_t first) {
  bool progress = false;
  for (std::size_t i = first; i < first + std::size_t(together_) && !violation_; ++i) {
    Thread& thread = *pool_[std::size_t(order_[i])];
    if (thread.state != Thread::State::ready)
      continue;
    progress = true;
    resume(thread);
    if (!violation_ && thread.fiber.done()) {
      thread.state = Thread::State::done;
      ++done_;
      if (awaits_ && !thread.awaited)
        violation_ = "a thread has not waited for the kernel ahead";
      if (++block().done == block_threads() && block().reached && !violation_)
        violation_ = "a block ends while another one may be at its shared memory";
      release_if_all_wait(block());
      release_if_all_wait();
    }
  }
  return progress;
}

void Machine::run_cluster() {
  while (done_ < threads() && !violation_) {
    bool progress = false;
    for (std::size_t first = 0; first < order_.size(); first += std::size_t(together_))
      while (run_some(first))
        progress = true;
    if (!progress && !violation_)
      violation_ = "threads wait for each other for ever: " + who_waits();
  }
}

std::string Machine::who_waits() const {
  int counts[5] = {};
  const char* what = "";
  for (int t = 0; t < threads(); ++t) {
    const Thread& thread = *pool_[std::size_t(t)];
    ++counts[std::size_t(thread.state)];
    if (thread.state == Thread::State::exchanging)
      what = warps_[std::size_t(t / lanes_of_warp)].what;
  }
  const std::string of_cluster =
      blocks_.size() > 1 ? std::to_string(counts[2]) + " at one of the cluster, " : "";
  return std::to_string(counts[1]) + " at a barrier, " + of_cluster + std::to_string(counts[3]) +
         " exchanging with their warp (" + what + "), " + std::to_string(counts[4]) + " have ended";
}

void Machine::violate(std::string what) {
  violation_ = std::move(what) + " (thread " + std::to_string(current_->number) + " of block " +
               std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
               std::to_string(blockIdx.z) + ")";
  current_->fiber.yield(); // For ever.
  std::abort();
}

void Machine::release_if_all_wait(Block& block) {
  if (block.at_barrier == 0 || block.at_barrier + block.done < block_threads())
    return;
  if (block.done > 0) {
    violation_ = "a barrier that not all threads reach: " + who_waits();
    return;
  }
  block.at_barrier = 0;
  ++block.barriers;
  const std::size_t first = std::size_t(&block - blocks_.data()) * std::size_t(block_threads());
  for (std::size_t t = first; t < first + std::size_t(block_threads()); ++t)
    pool_[t]->state = Thread::State::ready;
}

/// Does the same for the cluster's barrier.
void Machine::release_if_all_wait() {
  if (at_cluster_barrier_ == 0 || at_cluster_barrier_ + done_ < threads())
    return;
  if (done_ > 0) {
    violation_ = "a barrier of the cluster that not all threads reach: " + who_waits();
    return;
  }
  at_cluster_barrier_ = 0;
  ++cluster_barriers_;
  for (Block& b : blocks_) {
    ++b.barriers;
    b.reached = false;
  }
  for (int t = 0; t < threads(); ++t)
    pool_[std::size_t(t)]->state = Thread::State::ready;
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

} // namespace

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
  if (running) {
    const void* const place = __builtin_return_address(0);
    running->touch(shared, bytes, Access::copy_begins, place);
    if (from)
      running->touch(from, bytes, Access::read, place);
  }
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
    if (running)
      running->touch(copy->to, copy->bytes, Access::copy_arrives, nullptr);
  }
  thread.copies.erase(thread.copies.begin(), last);
  thread.groups.erase(thread.groups.begin(), last_group);
}

std::uint32_t rounding_seed() {
  return drawn_by.load(std::memory_order_relaxed);
}
void set_rounding_seed(std::uint32_t seed) {
  drawn_by = seed;
}

void watch_accesses() {
  watched = true;
}
void count_traffic(TrafficCount* into) {
  counted = into;
}
void touch(const void* at, std::size_t bytes, Access how, const void* place) {
  if (running)
    running->touch(at, bytes, how, place);
}

std::uint64_t run_early(const Grid& grid) {
  return machine().run_early(grid);
}
std::optional<std::string> run_grid(const Grid& grid, unsigned seed,
                                    std::optional<std::uint64_t> seen) {
  return machine().run(grid, seed, seen);
}

} // namespace cuda_emulation
