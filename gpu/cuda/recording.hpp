// The work that a piece enqueues, recorded before any of it is enqueued, so that a repeated piece
// is recognised and launched as a whole (graphs.hpp).
#pragma once

#include "gpu/cuda/check.hpp"

#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <vector>

namespace paceline::gpu::cuda {

/// One call that enqueues work, with all its parameters. Calls own nothing, and are never
/// destroyed.
class Call {
public:
  explicit Call(const char* name) : name_(name) {}

  const char* name() const { return name_; } ///< Name for errors; static.
  virtual cudaError_t issue(cudaStream_t stream) const = 0;
  /// Returns whether `other` enqueues the same work with the same parameters.
  virtual bool same(const Call& other) const = 0;

protected:
  ~Call() = default;

private:
  const char* name_;
};

/// A call of cudaMemcpyAsync.
class Copy final : public Call { // NOLINT(cppcoreguidelines-virtual-class-destructor)
public:
  Copy(const char* name, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind)
      : Call(name), to_(to), from_(from), bytes_(bytes), kind_(kind) {}

  void extend(std::size_t bytes) { bytes_ += bytes; }
  cudaError_t issue(cudaStream_t stream) const override {
    return cudaMemcpyAsync(to_, from_, bytes_, kind_, stream);
  }
  bool same(const Call& other) const override {
    const auto* copy = dynamic_cast<const Copy*>(&other);
    return copy && to_ == copy->to_ && from_ == copy->from_ && bytes_ == copy->bytes_ &&
           kind_ == copy->kind_;
  }

private:
  void* to_;
  const void* from_;
  std::size_t bytes_;
  cudaMemcpyKind kind_;
};

/// A call function(stream) of a library's. It may enqueue anything, so it is never the same as
/// another. It may throw.
template <class Function>
class LibraryCall final : public Call { // NOLINT(cppcoreguidelines-virtual-class-destructor)
public:
  LibraryCall(const char* name, const Function& function) : Call(name), function_(function) {}

  cudaError_t issue(cudaStream_t stream) const override {
    function_(stream);
    return cudaSuccess;
  }
  bool same(const Call&) const override { return false; }

private:
  Function function_;
};

/// Calls in order. It must not be used by several threads at once.
class Recording {
public:
  Recording() : memory_(std::make_unique<std::pmr::monotonic_buffer_resource>(first_bytes)) {}

  /// Adds a call and returns the kept copy, which lives until `clear`, also if the recording is
  /// moved.
  template <class Made>
  Made& add(const Made& call) {
    static_assert(std::is_trivially_destructible_v<Made>);
    Made* kept = new (memory_->allocate(sizeof(Made), alignof(Made))) Made(call);
    calls_.push_back(kept);
    return *kept;
  }
  void clear();

  bool empty() const { return calls_.empty(); }
  std::size_t size() const { return calls_.size(); }
  /// Returns false if a call is not even the same as itself, so that the recording never recurs.
  bool comes_again() const;
  bool operator==(const Recording& other) const;

  /// Issues all calls. Throws a CudaError that names the call that failed.
  void issue(cudaStream_t stream) const { issue(stream, 0, size()); }
  /// Issues calls [first, last).
  void issue(cudaStream_t stream, std::size_t first, std::size_t last) const;

private:
  static constexpr std::size_t first_bytes = std::size_t(32) << 10;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_;
  std::vector<const Call*> calls_;
};

/// The destination of calls: a stream, at once, or a recording.
class Queue {
public:
  Queue(cudaStream_t stream) : stream_(stream) {} // NOLINT(google-explicit-constructor)
  /// name: the calls' name.
  Queue(Recording& recording, const char* name) : recording_(&recording), name_(name) {}

  const char* name() const { return name_; }
  template <class Made>
  cudaError_t put(const Made& call) const {
    if (!recording_)
      return call.issue(stream_);
    recording_->add(call);
    return cudaSuccess;
  }

private:
  cudaStream_t stream_ = nullptr;
  Recording* recording_ = nullptr;
  const char* name_ = "a kernel";
};

} // namespace paceline::gpu::cuda
