#include "gpu/cuda/context.hpp"

#include "gpu/cuda/find.hpp"
#include "gpu/limits.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

namespace paceline::gpu::cuda {

/// A buffer that goes back to the pool in the order of the context's stream. It waits for no other
/// stream: steps that used it have retired, and a step retires when its work is done.
class DeviceBuffer final : public Buffer {
public:
  DeviceBuffer(std::shared_ptr<Context> context, void* data, std::size_t size)
      : context_(std::move(context)), data_(data), size_(size) {}
  ~DeviceBuffer() override { context_->release(data_, size_); }
  std::byte* data() override { return static_cast<std::byte*>(data_); }
  std::size_t size() const override { return size_; }

private:
  std::shared_ptr<Context> context_;
  void* data_;
  std::size_t size_;
};

namespace {

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value && *value;
}

class PinnedBuffer final : public Buffer {
public:
  PinnedBuffer(PinnedMemory memory, std::size_t size) : memory_(std::move(memory)), size_(size) {}
  std::byte* data() override { return static_cast<std::byte*>(memory_.get()); }
  std::size_t size() const override { return size_; }

private:
  PinnedMemory memory_;
  std::size_t size_;
};

Pool make_pool(int index) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = index;
  cudaMemPool_t pool = nullptr;
  PACELINE_CUDA_CHECK(cudaMemPoolCreate(&pool, &properties));
  Pool made(pool);
  // Freed memory stays in the pool, so that the next allocation needs no call of the driver.
  std::uint64_t kept = std::numeric_limits<std::uint64_t>::max();
  PACELINE_CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
  return made;
}

/// Makes a pool that the peers reach; null if one of them has no access.
Pool make_pool_reached_by(const std::set<int>& peers, int index) {
  std::vector<cudaMemAccessDesc> granted;
  for (const int peer : peers) {
    int can = 0;
    PACELINE_CUDA_CHECK(cudaDeviceCanAccessPeer(&can, peer, index));
    if (can == 0)
      return {};
    cudaMemAccessDesc& access = granted.emplace_back();
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
  }
  Pool pool = make_pool(index);
  if (cudaMemPoolSetAccess(pool.get(), granted.data(), granted.size()) == cudaSuccess)
    return pool;
  (void)cudaGetLastError(); // Treated like no access.
  return {};
}

double mebibytes(std::size_t bytes) {
  return double(bytes) / 0x1p20;
}

} // namespace

Result<std::shared_ptr<Context>> Context::of(int index) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Context>> contexts;
  const std::lock_guard lock(mutex);
  if (auto known = contexts[index].lock())
    return known;
  try {
    if (auto why = unusable(index))
      return tl::unexpected(*why);
    auto made = std::make_shared<Context>(index);
    contexts[index] = made;
    return made;
  } catch (const CudaError& e) {
    (void)cudaGetLastError();
    return fail(ErrorCode::unavailable, fmt::format("cuda:{} does not answer: {}", index, e.what()),
                "see nvidia-smi, or use another device");
  }
}

Context::Context(int index)
    : index_(index), name_(fmt::format("cuda:{}", index)),
      clears_(!is_set("PACELINE_CUDA_FRESH_MEMORY")) {
  const CurrentDevice current(index_);
  std::size_t free = 0;
  std::size_t total = 0;
  PACELINE_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  limit_ = free - std::min(free, limits::cuda_memory_reserve);
  pool_ = make_pool(index_);
  stream_ = make_stream();
}

void Context::log_to(base::Log log) {
  const std::lock_guard lock(mutex_);
  log_ = std::move(log);
}

void Context::warn(const std::string& message) const {
  base::Log log;
  {
    const std::lock_guard lock(mutex_);
    log = log_;
  }
  log.write(LogLevel::warning, fmt::format("{}: {}", name_, message));
}

DeviceMemory Context::memory() const {
  const std::lock_guard lock(mutex_);
  return {limit_, limit_ - used_};
}

Result<std::shared_ptr<Buffer>> Context::allocate(std::size_t bytes) {
  return allocate_from(pool_.get(), bytes);
}

Result<std::shared_ptr<Buffer>> Context::allocate_reached_by(std::set<int> peers,
                                                             std::size_t bytes) {
  peers.erase(index_);
  if (peers.empty())
    return allocate(bytes);
  if (lost())
    return tl::unexpected(lost_error());
  try {
    const CurrentDevice current(index_);
    cudaMemPool_t pool = nullptr;
    {
      const std::lock_guard lock(mutex_);
      auto known = shared_pools_.find(peers);
      if (known == shared_pools_.end())
        known = shared_pools_.emplace(peers, make_pool_reached_by(peers, index_)).first;
      pool = known->second.get();
    }
    if (!pool)
      return nullptr;
    return allocate_from(pool, bytes);
  } catch (const CudaError& e) {
    return tl::unexpected(error_of(e, bytes));
  }
}

// Answers from our own table: this is asked for every drafted token, and the driver is slow.
bool Context::holds(const void* memory) const {
  const auto* at = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(mutex_);
  const auto behind = lent_.upper_bound(at);
  return behind != lent_.begin() && at < std::prev(behind)->first + std::prev(behind)->second;
}

Result<std::shared_ptr<Buffer>> Context::allocate_from(cudaMemPool_t pool, std::size_t bytes) {
  if (lost())
    return tl::unexpected(lost_error());
  if (!reserve(bytes))
    return tl::unexpected(too_little(bytes));
  void* memory = nullptr;
  try {
    const CurrentDevice current(index_);
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    PACELINE_CUDA_CHECK(cudaMallocFromPoolAsync(&memory, size, pool, stream_.get()));
    {
      const std::lock_guard lock(mutex_);
      lent_[static_cast<const std::byte*>(memory)] = size;
    }
    auto buffer = std::make_shared<DeviceBuffer>(shared_from_this(), memory, bytes);
    if (clears_)
      PACELINE_CUDA_CHECK(cudaMemsetAsync(memory, 0, size, stream_.get()));
    PACELINE_CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
    return buffer;
  } catch (const CudaError& e) {
    if (!memory)
      release(nullptr, bytes);
    return tl::unexpected(error_of(e, bytes));
  }
}

bool Context::reserve(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > limit_ - used_)
    return false;
  used_ += bytes;
  return true;
}

Result<std::shared_ptr<Buffer>> Context::allocate_pinned(std::size_t bytes) {
  if (lost())
    return tl::unexpected(lost_error());
  try {
    const CurrentDevice current(index_);
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    PinnedMemory memory = make_pinned(size);
    std::memset(memory.get(), 0, size);
    return std::make_shared<PinnedBuffer>(std::move(memory), bytes);
  } catch (const CudaError& e) {
    (void)cudaGetLastError();
    return fail(
        ErrorCode::out_of_memory,
        fmt::format("cannot pin {:.1f} MiB of the host's memory for {}", mebibytes(bytes), name_),
        "free memory, or use a smaller number of sequences");
  }
}

void Context::release(void* memory, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
    lent_.erase(static_cast<const std::byte*>(memory)); // Precedes its reuse by another buffer.
  }
  if (!memory)
    return;
  try {
    const CurrentDevice current(index_);
    (void)cudaFreeAsync(memory, stream_.get());
  } catch (const CudaError&) { // The GPU is lost, and its memory with it.
    (void)cudaGetLastError();
  }
}

Result<void> Context::upload(Buffer& to, std::size_t granularity, const Fill& fill) {
  const std::lock_guard lock(uploading_);
  try {
    const CurrentDevice current(index_);
    const std::size_t wanted =
        std::max(limits::cuda_upload_piece / granularity * granularity, granularity);
    if (piece_bytes_ < wanted) {
      pieces_ = {};
      for (Piece& piece : pieces_)
        piece = {make_pinned(wanted), make_event()};
      piece_bytes_ = wanted;
    }
    for (std::size_t first = 0, turn = 0; first < to.size(); first += wanted, ++turn) {
      Piece& piece = pieces_[turn % pieces_.size()];
      const std::size_t count = std::min(wanted, to.size() - first);
      PACELINE_CUDA_CHECK(cudaEventSynchronize(piece.copied.get())); // Returns at once at first.
      fill(first, {static_cast<std::byte*>(piece.memory.get()), count});
      PACELINE_CUDA_CHECK(cudaMemcpyAsync(to.data() + first, piece.memory.get(), count,
                                          cudaMemcpyHostToDevice, stream_.get()));
      PACELINE_CUDA_CHECK(cudaEventRecord(piece.copied.get(), stream_.get()));
    }
    PACELINE_CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
    return {};
  } catch (const CudaError& e) {
    return tl::unexpected(error_of(e, to.size()));
  }
}

void Context::examine() {
  (void)cudaGetLastError(); // Clears an error that is not sticky.
  cudaError_t state = cudaStreamQuery(stream_.get());
  if (state == cudaErrorNotReady)
    state = cudaSuccess;
  if (state != cudaSuccess)
    lost_.store(true, std::memory_order_release);
}

Error Context::lost_error() const {
  return {ErrorCode::unavailable, fmt::format("{} was lost", name_),
          "start the program anew; see nvidia-smi and the system's log for the cause"};
}

Error Context::error_of(const CudaError& e, std::size_t bytes) {
  examine();
  if (lost())
    return lost_error();
  if (e.code() == cudaErrorMemoryAllocation)
    return too_little(bytes);
  return {ErrorCode::internal, fmt::format("{}: {}", name_, e.what()), {}};
}

Error Context::too_little(std::size_t bytes) const {
  return {ErrorCode::out_of_memory,
          fmt::format("cannot allocate {:.1f} MiB on {}, which has {:.1f} MiB left",
                      mebibytes(bytes), name_, mebibytes(memory().available)),
          "use a smaller model, context or number of sequences, or end what else uses the GPU"};
}

} // namespace paceline::gpu::cuda
