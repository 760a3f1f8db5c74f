// Green contexts of an emulated GPU of compute capability 9.0: its multiprocessors are divided
// by 8.
#include "tests/gpu/cuda_emulation/cuda.h"
#include "tests/gpu/cuda_emulation/state.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

using cuda_emulation::MultiprocessorSet;

struct CUdevResourceDesc_st {
  MultiprocessorSet multiprocessors;
};
struct CUgreenCtx_st {
  int device = 0;
  MultiprocessorSet multiprocessors;
  std::vector<CUstream> streams;
};

namespace {

constexpr unsigned grain = 8;

CUdevResource resource(int first, unsigned count, unsigned splits) {
  return {CU_DEV_RESOURCE_TYPE_SM, first, splits, {count, grain, grain}};
}

} // namespace

CUresult cuGetErrorName(CUresult error, const char** name) {
  switch (error) {
  case CUDA_SUCCESS: *name = "CUDA_SUCCESS"; return CUDA_SUCCESS;
  case CUDA_ERROR_INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return CUDA_SUCCESS;
  case CUDA_ERROR_INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; return CUDA_SUCCESS;
  case CUDA_ERROR_INVALID_RESOURCE_TYPE:
    *name = "CUDA_ERROR_INVALID_RESOURCE_TYPE";
    return CUDA_SUCCESS;
  case CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION:
    *name = "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION";
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  int count = 0;
  if (cudaGetDeviceCount(&count) || ordinal < 0 || ordinal >= count)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice, CUdevResource* whole, CUdevResourceType type) {
  if (type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *whole = resource(0, cuda_emulation::multiprocessors, 0);
  return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned* groups,
                                     const CUdevResource* input, CUdevResource* remaining, unsigned,
                                     unsigned least) {
  if (input->type != CU_DEV_RESOURCE_TYPE_SM || !groups)
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  if (input->splits) // What came out of a split is not split again.
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  if (least > input->sm.smCount)
    return CUDA_ERROR_INVALID_VALUE;
  static std::atomic<unsigned> splits{0};
  const unsigned split = ++splits;
  const unsigned each = std::max(1u, (least + grain - 1) / grain) * grain;
  const unsigned most = input->sm.smCount / each;
  *groups = result ? std::min(*groups, most) : most;
  if (!result)
    return CUDA_SUCCESS;
  for (unsigned i = 0; i < *groups; ++i)
    result[i] = resource(int(i * each), each, split);
  if (remaining) {
    *remaining = resource(int(*groups * each), input->sm.smCount - *groups * each, split);
    if (remaining->sm.smCount == 0)
      *remaining = {};
  }
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                   unsigned count) {
  MultiprocessorSet all;
  for (unsigned i = 0; i < count; ++i) {
    if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
      return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (resources[i].splits != resources[0].splits)
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    for (unsigned j = 0; j < resources[i].sm.smCount; ++j)
      all.set(std::size_t(resources[i].first) + j);
  }
  if (all.none())
    return CUDA_ERROR_INVALID_VALUE;
  static std::mutex mutex;
  static std::deque<CUdevResourceDesc_st> made; // The driver keeps them, too: nothing ends one.
  const std::lock_guard lock(mutex);
  *description = &made.emplace_back(CUdevResourceDesc_st{all});
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc description, CUdevice device,
                          unsigned flags) {
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM || !description)
    return CUDA_ERROR_INVALID_VALUE;
  *context = new CUgreenCtx_st{device, description->multiprocessors, {}};
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  if (std::ranges::any_of(context->streams, cuda_emulation::is_stream))
    cuda_emulation::fail(context->device, "a green context goes before a stream of it");
  delete context;
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags, int) {
  if (flags != CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  *stream = cuda_emulation::make_stream(context->device, context->multiprocessors);
  context->streams.push_back(*stream);
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* how) {
  static const std::map<std::string, void*> functions{
      {"cuGetErrorName", reinterpret_cast<void*>(&cuGetErrorName)},
      {"cuDeviceGet", reinterpret_cast<void*>(&cuDeviceGet)},
      {"cuDeviceGetDevResource", reinterpret_cast<void*>(&cuDeviceGetDevResource)},
      {"cuDevSmResourceSplitByCount", reinterpret_cast<void*>(&cuDevSmResourceSplitByCount)},
      {"cuDevResourceGenerateDesc", reinterpret_cast<void*>(&cuDevResourceGenerateDesc)},
      {"cuGreenCtxCreate", reinterpret_cast<void*>(&cuGreenCtxCreate)},
      {"cuGreenCtxDestroy", reinterpret_cast<void*>(&cuGreenCtxDestroy)},
      {"cuGreenCtxStreamCreate", reinterpret_cast<void*>(&cuGreenCtxStreamCreate)}};
  constexpr int since = 12040;
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  const auto found = functions.find(symbol);
  *function = nullptr;
  if (found == functions.end() || driver < since) {
    *how = cudaDriverEntryPointSymbolNotFound;
  } else if (version < unsigned(since)) {
    *how = cudaDriverEntryPointVersionNotSufficent;
  } else {
    *how = cudaDriverEntryPointSuccess;
    *function = found->second;
  }
  return cudaSuccess;
}
