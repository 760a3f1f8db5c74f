// The memory that all requests together hold of clients' data: bodies, parsed JSON, prompts.
#pragma once

#include "paceline/request.hpp"

#include <atomic>
#include <boost/json/memory_resource.hpp>
#include <cstddef>
#include <functional>
#include <optional>

namespace paceline::apps::serve {

/// One bound over the memory of all requests. Threads: any.
class RequestMemory {
public:
  /// idle: called now and then after much was given back, so that the allocator can give it to the
  /// system; on whichever thread gave it.
  RequestMemory(std::size_t most, std::function<void()> idle)
      : most_(most), idle_(std::move(idle)) {}

  /// Takes so many bytes. False: there are not so many now.
  bool take(std::size_t bytes);
  void give(std::size_t bytes);
  std::size_t used() const { return used_; }

private:
  const std::size_t most_;
  const std::function<void()> idle_;
  std::atomic<std::size_t> used_{0};
  std::atomic<std::size_t> given_{0}; ///< Bytes given back since `idle_` was called.
};

/// One request's share, which its destructor gives back; declare it before the data that it counts.
/// Memory that is allocated through it counts by itself, except for the first `free` bytes at a
/// time; beyond the bound it throws std::bad_alloc. Threads: one at a time.
class MemoryShare final : public boost::json::memory_resource {
public:
  explicit MemoryShare(RequestMemory& memory, std::size_t free = 0)
      : memory_(memory), free_(free) {}
  ~MemoryShare() override { memory_.give(held_ + counted(allocated_)); }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  /// Counts so many bytes besides what is allocated through it, in place of what it counted so.
  /// False: there are not so many, and the count stays as it was.
  bool hold(std::size_t bytes);

private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const boost::json::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::size_t counted(std::size_t bytes) const { return bytes > free_ ? bytes - free_ : 0; }

  RequestMemory& memory_;
  const std::size_t free_;
  std::size_t held_ = 0;
  std::size_t allocated_ = 0; ///< An upper bound: Boost's monotonic_resource gives back less than
                              ///< it took, the rest of which goes with this object.
};

/// Returns the memory that a form takes.
std::size_t bytes_of(const std::optional<Constraint>& form);
/// Returns the memory that the scores of a prompt of so many tokens take until they are sent.
std::size_t score_bytes(const Request& request, std::size_t prompt_tokens);

} // namespace paceline::apps::serve
