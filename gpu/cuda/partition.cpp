#include "gpu/cuda/partition.hpp"

#include <cuda.h>

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::gpu::cuda {

#if CUDA_VERSION >= 13000

namespace {

/// The driver's functions: the runtime finds them, so that the program runs without a driver.
struct Driver {
  decltype(&cuGetErrorName) name_error = nullptr;
  decltype(&cuDeviceGet) device = nullptr;
  decltype(&cuDeviceGetDevResource) resource = nullptr;
  decltype(&cuDevSmResourceSplitByCount) split = nullptr;
  decltype(&cuDevResourceGenerateDesc) describe = nullptr;
  decltype(&cuGreenCtxCreate) make = nullptr;
  decltype(&cuGreenCtxDestroy) destroy = nullptr;
  decltype(&cuGreenCtxStreamCreate) make_stream = nullptr;
};

template <class Function>
bool find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how{};
  const bool asked =
      cudaGetDriverEntryPointByVersion(name, &found, 13000, cudaEnableDefault, &how) == cudaSuccess;
  function = reinterpret_cast<Function>(found);
  return asked && how == cudaDriverEntryPointSuccess && function;
}

std::optional<Driver> find_driver() {
  Driver d;
  if (find("cuGetErrorName", d.name_error) && find("cuDeviceGet", d.device) &&
      find("cuDeviceGetDevResource", d.resource) && find("cuDevSmResourceSplitByCount", d.split) &&
      find("cuDevResourceGenerateDesc", d.describe) && find("cuGreenCtxCreate", d.make) &&
      find("cuGreenCtxDestroy", d.destroy) && find("cuGreenCtxStreamCreate", d.make_stream))
    return d;
  (void)cudaGetLastError();
  return std::nullopt;
}

/// Returns the functions of a driver that divides GPUs; none: it is too old.
const std::optional<Driver>& driver() {
  static const std::optional<Driver> found = find_driver();
  static const std::optional<Driver> none;
  int version = 0; // Older ones have these functions, and do not say how a GPU can be divided.
  return cudaDriverGetVersion(&version) == cudaSuccess && version >= 13000 ? found : none;
}

/// All multiprocessors of a GPU, by number, in the smallest parts that it can be cut into.
struct Division {
  std::vector<CUdevResource> parts; ///< What is left when all others have the same size is last.
  int size = 0;                     ///< Of each but the last.
  int count = 0;                    ///< Multiprocessors of all.
};

CUresult divide(const Driver& d, CUdevice device, Division& all) {
  CUdevResource whole{};
  if (const CUresult failed = d.resource(device, &whole, CU_DEV_RESOURCE_TYPE_SM))
    return failed;
  all.count = int(whole.sm.smCount);
  all.size = std::max(1, int(whole.sm.minSmPartitionSize));
  auto made = unsigned(all.count / all.size);
  all.parts.resize(made);
  CUdevResource rest{};
  if (const CUresult failed =
          d.split(all.parts.data(), &made, &whole, &rest, 0, unsigned(all.size)))
    return failed;
  all.parts.resize(made);
  if (rest.type == CU_DEV_RESOURCE_TYPE_SM && rest.sm.smCount > 0)
    all.parts.push_back(rest);
  return CUDA_SUCCESS;
}

/// Divides a GPU once: the driver says of one division alone that its parts have nothing in common.
CUresult divided(const Driver& d, CUdevice device, Division& all) {
  static std::mutex mutex;
  static std::map<CUdevice, Division> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(device); found != known.end()) {
    all = found->second;
    return CUDA_SUCCESS;
  }
  if (const CUresult failed = divide(d, device, all))
    return failed;
  known.emplace(device, all);
  return CUDA_SUCCESS;
}

/// Moves the parts that hold these multiprocessors, and no others, to the front; returns how many
/// they are, 0 if there are none such.
std::size_t choose(std::vector<CUdevResource>& parts, Multiprocessors wanted) {
  int next = 0; // The first multiprocessor of a part.
  int held = 0;
  const auto end = std::stable_partition(parts.begin(), parts.end(), [&](const auto& part) {
    const int first = std::exchange(next, next + int(part.sm.smCount));
    const bool inside = first >= wanted.first && next - 1 <= wanted.last;
    held += inside ? int(part.sm.smCount) : 0;
    return inside;
  });
  return held == wanted.last - wanted.first + 1 ? std::size_t(end - parts.begin()) : 0;
}

} // namespace

Result<std::shared_ptr<const Partition>> Partition::of(const Context& context,
                                                       Multiprocessors wanted) {
  const auto& d = driver();
  if (!d)
    return fail(ErrorCode::unsupported,
                fmt::format("there is no {}/{}: what divides a GPU is a driver of CUDA 13.0",
                            context.name(), to_string(wanted)),
                "update the driver, or name the GPU as a whole");
  const auto refused = [&](const char* what, CUresult code) {
    const char* name = nullptr;
    (void)d->name_error(code, &name);
    return fail(ErrorCode::unavailable,
                fmt::format("{} cannot be divided: {}: {}", context.name(), what,
                            name ? name : "unknown error"),
                "name the GPU as a whole");
  };
  CUdevice device = 0;
  if (const CUresult failed = d->device(&device, context.index()))
    return refused("cuDeviceGet", failed);
  Division all;
  if (const CUresult failed = divided(*d, device, all))
    return refused("cuDevSmResourceSplitByCount", failed);
  const Multiprocessors there{wanted.first, std::min(wanted.last, all.count - 1)};
  const std::size_t chosen = choose(all.parts, there);
  if (chosen == 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{0}'s {1} multiprocessors are divided by {2}, not as {0}/{3}",
                            context.name(), all.count, all.size, to_string(wanted)),
                fmt::format("begin at a multiple of {0} and end before one, such as {1}/0-{2} and "
                            "{1}/{3}- for the others",
                            all.size, context.name(), 2 * all.size - 1, 2 * all.size));
  CUdevResourceDesc description = nullptr;
  if (const CUresult failed = d->describe(&description, all.parts.data(), unsigned(chosen)))
    return refused("cuDevResourceGenerateDesc", failed);
  CUgreenCtx made = nullptr;
  if (const CUresult failed = d->make(&made, description, device, CU_GREEN_CTX_DEFAULT_STREAM))
    return refused("cuGreenCtxCreate", failed);
  return std::shared_ptr<const Partition>(new Partition(made, there));
}

Partition::~Partition() {
  if (const auto& d = driver())
    (void)d->destroy(context_);
}

Stream Partition::make_stream(int priority) const {
  const std::lock_guard lock(mutex_);
  CUstream stream = nullptr;
  if (driver().value().make_stream(&stream, context_, CU_STREAM_NON_BLOCKING, priority))
    throw CudaError(cudaErrorNotSupported, "cuGreenCtxStreamCreate");
  return Stream(stream);
}

#else

Result<std::shared_ptr<const Partition>> Partition::of(const Context& context,
                                                       Multiprocessors /*wanted*/) {
  return fail(
      ErrorCode::unsupported,
      fmt::format("{} cannot be divided: this build's CUDA is older than 13.0", context.name()),
      "build with CUDA 13, or name the GPU as a whole");
}

Partition::~Partition() = default;

Stream Partition::make_stream(int /*priority*/) const {
  throw CudaError(cudaErrorNotSupported, "cuGreenCtxStreamCreate");
}

#endif

} // namespace paceline::gpu::cuda
