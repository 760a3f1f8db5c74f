// Streams are threads with a queue, so that what a host forgets to wait for shows, and a thread
// sanitizer sees who orders what.
#include "tests/gpu/cuda_emulation/block.hpp"
#include "tests/gpu/cuda_emulation/launch.hpp"
#include "tests/gpu/cuda_emulation/state.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

using cuda_emulation::MultiprocessorSet;
using cuda_emulation::Task;
using Tasks = std::vector<Task>;

struct CUstream_st {
  explicit CUstream_st(int on, MultiprocessorSet those = MultiprocessorSet().set())
      : device(on), multiprocessors(those), worker_([this] { work(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  void append(Task task) {
    {
      const std::lock_guard lock(mutex_);
      if (captured_) {
        captured_->push_back(std::move(task));
        return;
      }
      queue_.push_back(std::move(task));
      ++appended_;
    }
    changed_.notify_all();
  }
  bool idle() {
    const std::lock_guard lock(mutex_);
    return done_ == appended_;
  }
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&, until = appended_] { return done_ >= until; });
  }

  /// Begins a capture. The following are called by the thread that captures.
  void begin_capture() {
    const std::lock_guard lock(mutex_);
    captured_.emplace();
  }
  Tasks end_capture() {
    const std::lock_guard lock(mutex_);
    return *std::exchange(captured_, std::nullopt);
  }

  const int device;
  const MultiprocessorSet multiprocessors;

private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      if (queue_.empty())
        return;
      const Task task = std::move(queue_.front());
      queue_.pop_front();
      const auto next_early = queue_.empty() ? nullptr : queue_.front().early;
      lock.unlock();
      if (task.early && next_early)
        next_early();
      task.run();
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  std::optional<Tasks> captured_;
  std::size_t appended_ = 0;
  std::size_t done_ = 0;
  bool closing_ = false;
  std::thread worker_;
};

struct CUevent_st {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t recorded = 0;
  std::size_t reached = 0;
  int device = 0;
  std::chrono::steady_clock::time_point when;
};

struct CUgraph_st {
  Tasks tasks;
};
struct CUgraphExec_st {
  Tasks tasks;
};

namespace cuda_emulation {
namespace {

/// The stream that this thread captures, and whether that came to nothing.
thread_local cudaStream_t capturing = nullptr;
thread_local bool spoiled = false;

using EventRef = std::shared_ptr<CUevent_st>;

/// All that are alive. Events live on while a stream still has to reach them.
struct Registry {
  std::mutex mutex;
  std::set<cudaStream_t> streams;
  std::map<cudaEvent_t, EventRef> events;
  std::map<int, std::unique_ptr<CUstream_st>> defaults; ///< By device; made when used.
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
constexpr unsigned cluster_most = 8; // Of blocks, on every GPU that has clusters.

/// What a launch's attributes say.
struct Attributes {
  bool valid = true;
  bool early = false;
  unsigned cluster = 1;
};
Attributes attributes_of(const cudaLaunchConfig_t& config) {
  Attributes all;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      all.early = true;
    } else if (attribute.id == cudaLaunchAttributeClusterDimension) {
      const auto [x, y, z] = attribute.val.clusterDim;
      State& s = state();
      const std::lock_guard lock(s.mutex);
      all.cluster = x;
      all.valid &= x > 0 && x <= cluster_most && y == 1 && z == 1 && config.gridDim.x % x == 0 &&
                   s.options.capability_major >= 9;
    } else {
      all.valid = false;
    }
  }
  return all;
}

bool valid(const cudaLaunchConfig_t& config, const void* kernel) {
  const auto threads = std::size_t(config.blockDim.x) * config.blockDim.y * config.blockDim.z;
  int allowed = shared_free;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (const auto found = s.shared_allowed.find(kernel); found != s.shared_allowed.end())
      allowed = std::max(allowed, found->second);
  }
  return threads > 0 && threads <= 1024 && threads % 32 == 0 && config.gridDim.x > 0 &&
         config.gridDim.x <= 0x7FFFFFFF && config.gridDim.y > 0 && config.gridDim.y <= 65535 &&
         config.gridDim.z > 0 && config.gridDim.z <= 65535 &&
         config.dynamicSmemBytes <= std::size_t(allowed) && attributes_of(config).valid;
}

} // namespace

cudaError_t no_capture() {
  if (!capturing)
    return cudaSuccess;
  spoiled = true;
  return remember(cudaErrorStreamCaptureUnsupported);
}

void append(cudaStream_t stream, Task work) {
  stream_of(stream).append(std::move(work));
}

cudaStream_t make_stream(int device, MultiprocessorSet those) {
  auto* stream = new CUstream_st(device, those);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.streams.insert(stream);
  return stream;
}

bool is_stream(cudaStream_t stream) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return r.streams.contains(stream);
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

void fail(int device, const std::string& violation) {
  std::fprintf(stderr, "emulated GPU: %s\n", violation.c_str());
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.violation = violation;
  s.lost.at(std::size_t(device)) = true;
}

cudaError_t allow_shared(const void* kernel, int bytes) {
  State& s = state();
  bool lowered = false;
  {
    const std::lock_guard lock(s.mutex);
    if (bytes < 0 || bytes > shared_most(s.options))
      return remember(cudaErrorInvalidValue);
    lowered = bytes < std::exchange(s.shared_allowed[kernel], bytes);
  }
  if (lowered)
    fail(current_device(), "a kernel's bound of shared memory is lowered, while another thread may "
                           "be about to launch it with more");
  return cudaSuccess;
}

cudaError_t enqueue(const cudaLaunchConfig_t& config, const void* kernel,
                    std::function<void()> body) {
  if (const cudaError_t error = usable())
    return error;
  if (device_of(config.stream) != current_device())
    return remember(cudaErrorInvalidResourceHandle);
  if (!valid(config, kernel))
    return remember(cudaErrorInvalidValue);
  state().launches.fetch_add(1);
  const int device = device_of(config.stream);
  const Attributes attributes = attributes_of(config);
  if (attributes.cluster > 1)
    state().cluster_launches.fetch_add(1);
  // What its early copies read before the kernel ahead ran, if somebody looked.
  const auto seen = std::make_shared<std::optional<std::uint64_t>>();
  Grid grid{config.gridDim,   config.blockDim,    config.dynamicSmemBytes,
            attributes.early, attributes.cluster, std::move(body)};
  Task task;
  if (attributes.early)
    task.early = [=] { *seen = run_early(grid); };
  task.run = [=, those = stream_of(config.stream).multiprocessors] {
    if (is_lost(device))
      return;
    State& s = state();
    for (std::size_t i = 0; i < those.size(); ++i)
      s.kernels_on[i].fetch_add(those[i] ? 1 : 0);
    const unsigned seed = s.options.seed * 7919u + s.grids.fetch_add(1);
    if (const auto violation = run_grid(grid, seed, std::exchange(*seen, std::nullopt)))
      fail(device, *violation);
  };
  append(config.stream, std::move(task));
  return cudaSuccess;
}

} // namespace cuda_emulation

using namespace cuda_emulation;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (const cudaError_t error = usable())
    return error;
  *stream = make_stream(current_device(), MultiprocessorSet().set());
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
  if (const cudaError_t error = no_capture())
    return error;
  drain(stream);
  return state_of(device_of(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = no_capture())
    return error;
  if (const cudaError_t error = state_of(device_of(stream)))
    return error;
  return stream_of(stream).idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t error = state_of(device_of(stream)))
    return error;
  if (!stream || capturing)
    return remember(cudaErrorStreamCaptureUnsupported);
  capturing = stream;
  spoiled = false;
  stream->begin_capture();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!stream || capturing != stream)
    return remember(cudaErrorInvalidValue);
  capturing = nullptr;
  Tasks tasks = stream->end_capture();
  if (spoiled)
    return remember(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st{std::move(tasks)};
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = usable())
    return error;
  if (!graph)
    return remember(cudaErrorInvalidValue);
  if (!state().options.graphs)
    return remember(cudaErrorNotSupported);
  *exec = new CUgraphExec_st{graph->tasks};
  state().graphs_made.fetch_add(1);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = state_of(device_of(stream)))
    return error;
  state().graph_launches.fetch_add(1);
  for (const auto& task : exec->tasks)
    append(stream, task);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
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
