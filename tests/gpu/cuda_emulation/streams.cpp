// Streams are threads with a queue, so that what a host forgets to wait for shows, and a thread
// sanitizer sees who orders what.
#include "tests/gpu/cuda_emulation/block.hpp"
#include "tests/gpu/cuda_emulation/launch.hpp"
#include "tests/gpu/cuda_emulation/state.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>

struct CUstream_st {
  explicit CUstream_st(int on) : device(on), worker([this] { work(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    changed.notify_all();
    worker.join();
  }

  void append(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex);
      queue.push_back(std::move(task));
      ++appended;
    }
    changed.notify_all();
  }
  bool idle() {
    const std::lock_guard lock(mutex);
    return done == appended;
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&, until = appended] { return done >= until; });
  }

  const int device;

private:
  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return closing || !queue.empty(); });
      if (queue.empty())
        return;
      const auto task = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      task();
      lock.lock();
      ++done;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  std::size_t appended = 0;
  std::size_t done = 0;
  bool closing = false;
  std::thread worker;
};

struct CUevent_st {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t recorded = 0;
  std::size_t reached = 0;
  int device = 0;
  std::chrono::steady_clock::time_point when;
};

namespace cuda_emulation {
namespace {

using EventRef = std::shared_ptr<CUevent_st>;

/// All that are alive. Events live on while a stream still has to reach them.
struct Registry {
  std::mutex mutex;
  std::set<cudaStream_t> streams;
  std::map<cudaEvent_t, EventRef> events;
  std::map<int, std::unique_ptr<CUstream_st>> defaults; ///< By device; made when used.
  std::map<const void*, int> shared_allowed;            ///< By kernel.
};
Registry& registry() {
  static Registry registry;
  return registry;
}

CUstream_st& stream_of(cudaStream_t stream) {
  if (stream)
    return *stream;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  auto& own = r.defaults[current_device()];
  if (!own)
    own = std::make_unique<CUstream_st>(current_device());
  return *own;
}

EventRef event_of(cudaEvent_t event) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto found = r.events.find(event);
  return found == r.events.end() ? nullptr : found->second;
}

cudaError_t state_of(int device) {
  return remember(is_lost(device) ? cudaErrorLaunchFailure : cudaSuccess);
}

void reach(const EventRef& event, std::size_t which) {
  const std::lock_guard lock(event->mutex);
  event->reached = std::max(event->reached, which);
  event->when = std::chrono::steady_clock::now();
  event->changed.notify_all();
}

void wait(const EventRef& event, std::size_t which) {
  std::unique_lock lock(event->mutex);
  event->changed.wait(lock, [&] { return event->reached >= which; });
}

constexpr int shared_free = 48 << 10;
constexpr int shared_most = 227 << 10;

bool valid(const cudaLaunchConfig_t& config, const void* kernel) {
  const auto threads = std::size_t(config.blockDim.x) * config.blockDim.y * config.blockDim.z;
  int allowed = shared_free;
  {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    if (const auto found = r.shared_allowed.find(kernel); found != r.shared_allowed.end())
      allowed = std::max(allowed, found->second);
  }
  return threads > 0 && threads <= 1024 && threads % 32 == 0 && config.gridDim.x > 0 &&
         config.gridDim.x <= 0x7FFFFFFF && config.gridDim.y > 0 && config.gridDim.y <= 65535 &&
         config.gridDim.z > 0 && config.gridDim.z <= 65535 &&
         config.dynamicSmemBytes <= std::size_t(allowed) && config.numAttrs == 0;
}

} // namespace

void append(cudaStream_t stream, std::function<void()> work) {
  stream_of(stream).append(std::move(work));
}

int device_of(cudaStream_t stream) {
  return stream ? stream->device : current_device();
}

void drain(cudaStream_t stream) {
  stream_of(stream).drain();
}

void drain_device(int device) {
  std::vector<cudaStream_t> streams;
  {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    for (cudaStream_t stream : r.streams)
      if (stream->device == device)
        streams.push_back(stream);
    if (const auto own = r.defaults.find(device); own != r.defaults.end())
      streams.push_back(own->second.get());
  }
  for (cudaStream_t stream : streams)
    stream->drain();
}

cudaError_t allow_shared(const void* kernel, int bytes) {
  if (bytes < 0 || bytes > shared_most)
    return remember(cudaErrorInvalidValue);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.shared_allowed[kernel] = bytes;
  return cudaSuccess;
}

cudaError_t enqueue(const cudaLaunchConfig_t& config, const void* kernel,
                    std::function<void()> body) {
  if (const cudaError_t error = usable())
    return error;
  if (!valid(config, kernel))
    return remember(cudaErrorInvalidValue);
  State& s = state();
  const unsigned number = s.launches.fetch_add(1);
  const unsigned seed = s.options.seed * 7919u + number;
  const int device = device_of(config.stream);
  append(config.stream, [config, seed, device, body = std::move(body)] {
    if (is_lost(device))
      return;
    const auto violation =
        run_grid(config.gridDim, config.blockDim, config.dynamicSmemBytes, seed, body);
    if (!violation)
      return;
    std::fprintf(stderr, "emulated GPU: %s\n", violation->c_str());
    State& all = state();
    const std::lock_guard lock(all.mutex);
    all.violation = *violation;
    all.lost.at(std::size_t(device)) = true;
  });
  return cudaSuccess;
}

} // namespace cuda_emulation

using namespace cuda_emulation;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (const cudaError_t error = usable())
    return error;
  *stream = new CUstream_st(current_device());
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    if (r.streams.erase(stream) == 0)
      return remember(cudaErrorInvalidValue);
  }
  delete stream; // Once all that is in it is done.
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  drain(stream);
  return state_of(device_of(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = state_of(device_of(stream)))
    return error;
  return stream_of(stream).idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (const cudaError_t error = state_of(device_of(stream)))
    return error;
  append(stream, [=, device = device_of(stream)] {
    if (!is_lost(device))
      function(data);
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t error = usable())
    return error;
  auto made = std::make_shared<CUevent_st>();
  made->device = current_device();
  *event = made.get();
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.events.emplace(*event, std::move(made));
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return r.events.erase(event) > 0 ? cudaSuccess : remember(cudaErrorInvalidValue);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const EventRef own = event_of(event);
  if (!own || own->device != device_of(stream))
    return remember(cudaErrorInvalidValue);
  if (const cudaError_t error = state_of(own->device))
    return error;
  std::size_t which = 0;
  {
    const std::lock_guard lock(own->mutex);
    which = ++own->recorded;
  }
  append(stream, [own, which] { reach(own, which); });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const EventRef own = event_of(event);
  if (!own)
    return remember(cudaErrorInvalidValue);
  std::size_t which = 0;
  {
    const std::lock_guard lock(own->mutex);
    which = own->recorded;
  }
  append(stream, [own, which] { wait(own, which); });
  return state_of(device_of(stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const EventRef own = event_of(event);
  if (!own)
    return remember(cudaErrorInvalidValue);
  if (const cudaError_t error = state_of(own->device))
    return error;
  const std::lock_guard lock(own->mutex);
  return own->reached >= own->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const EventRef own = event_of(event);
  if (!own)
    return remember(cudaErrorInvalidValue);
  std::size_t which = 0;
  {
    const std::lock_guard lock(own->mutex);
    which = own->recorded;
  }
  wait(own, which);
  return state_of(own->device);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const EventRef a = event_of(begin);
  const EventRef b = event_of(end);
  if (!a || !b)
    return remember(cudaErrorInvalidValue);
  const std::scoped_lock lock(a->mutex, b->mutex);
  *milliseconds = std::chrono::duration<float, std::milli>(b->when - a->when).count();
  return cudaSuccess;
}
