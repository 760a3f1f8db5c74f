#include "gpu/cuda/survey.hpp"

#include "gpu/cuda/fast_products.hpp"
#include "gpu/cuda/find.hpp"
#include "gpu/cuda/handle.hpp"
#include "gpu/cuda/nccl.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace paceline::gpu::cuda {
namespace {

constexpr std::array built_for{PACELINE_CUDA_BUILT_FOR};

/// Converts CUDA's number, e.g. 13020, to a version, 13.2.
Version version_of(int number) {
  return {number / 1000, number % 1000 / 10};
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  PACELINE_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, index));
  return value;
}

Version capability_of(int index) {
  return {attribute(cudaDevAttrComputeCapabilityMajor, index),
          attribute(cudaDevAttrComputeCapabilityMinor, index)};
}

Link link_between(int from, int to) {
  Link link;
  link.to = to;
  int can = 0;
  PACELINE_CUDA_CHECK(cudaDeviceCanAccessPeer(&can, from, to));
  link.peer = can != 0;
  if (link.peer) {
    int atomics = 0;
    PACELINE_CUDA_CHECK(
        cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to));
    PACELINE_CUDA_CHECK(
        cudaDeviceGetP2PAttribute(&link.rank, cudaDevP2PAttrPerformanceRank, from, to));
    link.atomics = atomics != 0;
  }
  return link;
}

void describe(Gpu& gpu, int count) {
  cudaDeviceProp properties{};
  PACELINE_CUDA_CHECK(cudaGetDeviceProperties(&properties, gpu.index));
  gpu.model = properties.name;
  gpu.memory_total = properties.totalGlobalMem;
  gpu.pci = fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID,
                        properties.pciDeviceID);
  gpu.capability = capability_of(gpu.index);
  gpu.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, gpu.index);
  for (int other = 0; other < count; ++other)
    if (other != gpu.index)
      gpu.links.push_back(link_between(gpu.index, other));
  const CurrentDevice current(gpu.index);
  std::size_t total = 0;
  PACELINE_CUDA_CHECK(cudaMemGetInfo(&gpu.memory_free, &total));
}

/// Returns whether this build has kernels for a GPU. Those of an older minor version run on a newer
/// one, and PTX of the newest on all later ones.
bool has_kernels(Version capability) {
  const int mine = 10 * capability.major + capability.minor;
  return mine >= built_for.back() ||
         std::any_of(built_for.begin(), built_for.end(), [&](int architecture) {
           return architecture / 10 == capability.major && architecture <= mine;
         });
}

} // namespace

Result<int> count_gpus() {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaSuccess && count > 0)
    return count;
  (void)cudaGetLastError(); // Not sticky: the program goes on without.
  int driver = 0;
  int runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  if (driver == 0)
    return fail(ErrorCode::not_found, "NVIDIA's driver is not installed",
                "install it, or use EngineOptions::devices = cpu");
  if (found == cudaErrorInsufficientDriver)
    return fail(ErrorCode::unsupported,
                fmt::format("NVIDIA's driver is too old: it supports CUDA {}, and {} is needed",
                            to_string(version_of(driver)), to_string(version_of(runtime))),
                "update the driver, or use EngineOptions::devices = cpu");
  if (found == cudaSuccess || found == cudaErrorNoDevice)
    return fail(ErrorCode::not_found, "NVIDIA's driver finds no GPU",
                "see nvidia-smi and CUDA_VISIBLE_DEVICES, or use EngineOptions::devices = cpu");
  return fail(ErrorCode::unavailable, "CUDA does not start: " + describe(found),
              "see nvidia-smi, or use EngineOptions::devices = cpu");
}

std::optional<Error> unusable(int index) {
  const std::string name = fmt::format("cuda:{}", index);
  const Version capability = capability_of(index);
  if (capability.major < 8)
    return Error{
        ErrorCode::unsupported,
        fmt::format("{} has compute capability {}, and 8.0 is needed", name, to_string(capability)),
        "use a GPU of the Ampere generation or later, or EngineOptions::devices = cpu"};
  if (!has_kernels(capability))
    return Error{ErrorCode::unsupported,
                 fmt::format("this build has no kernels for {}, whose compute capability is {}",
                             name, to_string(capability)),
                 "build with PACELINE_CUDA_ARCHITECTURES, or use EngineOptions::devices = cpu"};
  if (attribute(cudaDevAttrComputeMode, index) == int(cudaComputeModeProhibited))
    return Error{ErrorCode::unavailable, fmt::format("{} is closed to computations", name),
                 "open it with nvidia-smi --compute-mode=DEFAULT"};
  if (attribute(cudaDevAttrMemoryPoolsSupported, index) == 0)
    return Error{
        ErrorCode::unsupported, fmt::format("{} has no memory pools", name),
        "use a driver and a mode of the GPU that have them, or EngineOptions::devices = cpu"};
  return std::nullopt;
}

Survey survey() {
  Survey all;
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess)
    all.toolkit = version_of(version);
  all.architectures.assign(built_for.begin(), built_for.end());
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0)
    all.driver = version_of(version);
  const auto count = count_gpus();
  if (!count) {
    all.unusable = count.error();
    return all;
  }
  for (int index = 0; index < *count; ++index) {
    Gpu gpu;
    gpu.index = index;
    try {
      gpu.unusable = unusable(index);
      describe(gpu, *count);
    } catch (const CudaError& e) {
      (void)cudaGetLastError();
      gpu.unusable =
          Error{ErrorCode::unavailable, fmt::format("cuda:{} does not answer: {}", index, e.what()),
                "see nvidia-smi, or use another device"};
    }
    all.gpus.push_back(std::move(gpu));
  }
  if (const auto cublas = cublas_version())
    all.cublas = *cublas;
  else
    all.no_cublas = cublas.error();
  if (const auto nccl = Nccl::load())
    all.nccl = nccl->version();
  else
    all.no_nccl = nccl.error();
  return all;
}

} // namespace paceline::gpu::cuda
