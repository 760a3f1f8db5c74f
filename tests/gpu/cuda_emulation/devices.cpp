#include "tests/gpu/cuda_emulation/block.hpp"
#include "tests/gpu/cuda_emulation/state.hpp"

#include <algorithm>
#include <cstdio>

namespace cuda_emulation {
namespace {

thread_local int device_of_thread = 0;
thread_local cudaError_t last_error = cudaSuccess;

} // namespace

State& state() {
  static State state;
  return state;
}

void reset(const Options& options) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.options = options;
  set_rounding_seed(options.seed);
  s.lost.assign(std::size_t(std::max(options.devices, 0)), false);
  s.violation.clear();
  s.shared_allowed.clear();
  last_error = cudaSuccess;
  device_of_thread = 0;
}

void lose(int device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.lost.at(std::size_t(device)) = true;
}

std::string violation() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.violation;
}

std::size_t launches() {
  return state().launches.load();
}
std::size_t cluster_launches() {
  return state().cluster_launches.load();
}

std::size_t kernels_on(int multiprocessor) {
  return state().kernels_on.at(std::size_t(multiprocessor)).load();
}

std::size_t graphs_made() {
  return state().graphs_made.load();
}

std::size_t graph_launches() {
  return state().graph_launches.load();
}

std::size_t allocations() {
  return state().allocations.load();
}

int current_device() {
  return device_of_thread;
}

bool is_lost(int device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return std::size_t(device) < s.lost.size() && s.lost[std::size_t(device)];
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess)
    last_error = error;
  return error;
}

cudaError_t usable() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count))
    return error;
  return remember(is_lost(current_device()) ? cudaErrorLaunchFailure : cudaSuccess);
}

} // namespace cuda_emulation

using namespace cuda_emulation;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
  case cudaSuccess: return "cudaSuccess";
  case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
  case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
  case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
  case cudaErrorNoDevice: return "cudaErrorNoDevice";
  case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
  case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
  case cudaErrorNotReady: return "cudaErrorNotReady";
  case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
  case cudaErrorNotSupported: return "cudaErrorNotSupported";
  case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
  case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}

cudaError_t cudaPeekAtLastError() {
  return is_lost(current_device()) ? cudaErrorLaunchFailure : last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *count = 0;
  if (s.options.driver_version < 12000)
    return remember(cudaErrorInsufficientDriver);
  *count = s.options.devices;
  return remember(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaDriverGetVersion(int* version) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *version = s.options.driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count))
    return error;
  if (device < 0 || device >= count)
    return remember(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}

int cuda_emulation::shared_most(const Options& options) {
  switch (options.capability_major) {
  case 8: return options.capability_minor == 0 ? 163 << 10 : 99 << 10;
  case 12: return 99 << 10;
  default: return 227 << 10;
  }
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count))
    return error;
  if (device < 0 || device >= count)
    return remember(cudaErrorInvalidDevice);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Emulated GPU");
  properties->totalGlobalMem = s.options.memory;
  properties->major = s.options.capability_major;
  properties->minor = s.options.capability_minor;
  properties->multiProcessorCount = multiprocessors;
  properties->pciBusID = device + 1;
  properties->sharedMemPerBlockOptin = std::size_t(shared_most(s.options));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device))
    return error;
  switch (attribute) {
  case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
  case cudaDevAttrComputeMode: *value = cudaComputeModeDefault; break;
  case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
  case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *value = int(properties.sharedMemPerBlockOptin);
    break;
  case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer && state().options.peers;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int, int) {
  *value = attribute == cudaDevP2PAttrPerformanceRank ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return usable();
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return usable();
}

cudaError_t cudaDeviceSynchronize() {
  drain_device(current_device());
  return usable();
}
