#include "gpu/cpu/memory.hpp"

#include "gpu/limits.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <mutex>
#include <new>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace paceline::gpu::cpu {
namespace {

constexpr std::size_t huge_page = std::size_t(2) << 20;

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

class SmallBuffer final : public Buffer {
public:
  SmallBuffer(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  ~SmallBuffer() override { std::free(data_); }
  std::byte* data() override { return data_; }
  std::size_t size() const override { return size_; }

private:
  std::byte* data_;
  std::size_t size_;
};

class MappedBuffer final : public Buffer {
public:
  MappedBuffer(std::byte* data, std::size_t mapped, std::size_t size)
      : data_(data), mapped_(mapped), size_(size) {}
  ~MappedBuffer() override { munmap(data_, mapped_); }
  std::byte* data() override { return data_; }
  std::size_t size() const override { return size_; }

private:
  std::byte* data_;
  std::size_t mapped_; // In whole pages.
  std::size_t size_;
};

tl::unexpected<Error> too_little(std::size_t bytes) {
  return fail(ErrorCode::out_of_memory,
              fmt::format("cannot allocate {:.1f} MiB of memory", double(bytes) / 0x1p20),
              "free memory, or use a smaller model, context or number of sequences");
}

// Reads a number from a file such as cgroup's memory.max; "max" or no file: no limit.
std::size_t read_number(const char* path) {
  std::ifstream in(path);
  std::size_t value = 0;
  return in >> value ? value : std::numeric_limits<std::size_t>::max();
}

// Addresses from which large buffers are cut one behind another. A huge page holds the end of one
// and the beginning of the next: a page of its own for each would cost a megabyte a matrix, and
// small pages at the ends cost a walk through the page table for each 4 KiB that a product reads.
class Addresses {
public:
  /// Returns zeroed memory that the caller unmaps, or null. Threads: any.
  std::byte* cut(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (left_ < bytes && !reserve(bytes))
      return nullptr;
    left_ -= bytes;
    return std::exchange(next_, next_ + bytes);
  }

private:
  bool reserve(std::size_t bytes) {
    // A limit of addresses (ulimit -v) may leave enough for this buffer alone.
    return map(std::max(bytes, limits::reserved_addresses)) || map(bytes);
  }

  bool map(std::size_t bytes) {
    const std::size_t size = round_up(bytes, huge_page);
    void* const mapping = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
      return false;
    auto* const begin = static_cast<std::byte*>(mapping);
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) % huge_page;
    unmap(begin, before);
    unmap(begin + before + size, huge_page - before);
    unmap(next_, left_);
    next_ = begin + before;
    left_ = size;
    madvise(next_, left_, MADV_HUGEPAGE); // Is only advice.
    return true;
  }

  static void unmap(std::byte* begin, std::size_t bytes) {
    if (bytes > 0)
      munmap(begin, bytes);
  }

  std::mutex mutex_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

Result<std::shared_ptr<Buffer>> allocate_mapped(std::size_t bytes) {
  static Addresses addresses;
  if (bytes > host_memory().available)
    return too_little(bytes);
  const std::size_t size = round_up(bytes, std::size_t(sysconf(_SC_PAGESIZE)));
  std::byte* const data = addresses.cut(size);
  if (!data)
    return too_little(bytes);
  return std::make_shared<MappedBuffer>(data, size, bytes);
}

} // namespace

DeviceMemory host_memory() {
  DeviceMemory memory;
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  std::size_t kib = 0;
  while (in >> key >> kib && std::getline(in, unit)) {
    if (key == "MemTotal:")
      memory.total = kib << 10;
    if (key == "MemAvailable:")
      memory.available = kib << 10;
  }
  const std::size_t limit = read_number("/sys/fs/cgroup/memory.max");
  if (limit < memory.total) {
    const std::size_t used = std::min(limit, read_number("/sys/fs/cgroup/memory.current"));
    memory.total = limit;
    memory.available = std::min(memory.available, limit - used);
  }
  return memory;
}

Result<std::shared_ptr<Buffer>> allocate_host(std::size_t bytes) {
  if (bytes >= limits::large_allocation)
    return allocate_mapped(bytes);
  const std::size_t rounded = round_up(std::max<std::size_t>(bytes, 1), 64);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
  if (!data)
    return too_little(bytes);
  std::memset(data, 0, rounded);
  return std::make_shared<SmallBuffer>(data, bytes);
}

std::byte* Scratch::at_least(std::size_t bytes) {
  if (!buffer_ || buffer_->size() < bytes) {
    buffer_.reset();
    auto grown = allocate_host(bytes + bytes / 2);
    if (!grown)
      throw std::bad_alloc();
    buffer_ = std::move(*grown);
  }
  return buffer_->data();
}

} // namespace paceline::gpu::cpu
