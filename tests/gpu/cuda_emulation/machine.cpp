#include "tests/gpu/cuda_emulation/machine.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <numeric>
#include <utility>

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace cuda_emulation {
namespace {

std::atomic<std::uint32_t> drawn_by = 1;
std::atomic<bool> watched = false;
std::atomic<TrafficCount*> counted = nullptr;
/// What runs a kernel on this thread just now whose accesses are watched.
constinit thread_local Machine* running = nullptr;

} // namespace

Machine& machine() {
  thread_local Machine machine;
  return machine;
}

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
