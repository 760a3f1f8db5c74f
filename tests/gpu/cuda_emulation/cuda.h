// The part of CUDA's driver that the tree uses, by the names and with the behaviour that NVIDIA's
// documentation of the CUDA Driver API, 13.0, gives: a GPU's multiprocessors, divided.
#pragma once

#include "tests/gpu/cuda_emulation/cuda_runtime_api.h"

#define CUDA_VERSION 13000

enum CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,
  CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915
};
CUresult cuGetErrorName(CUresult error, const char** name);

using CUdevice = int;
CUresult cuDeviceGet(CUdevice* device, int ordinal);

enum CUdevResourceType { CU_DEV_RESOURCE_TYPE_INVALID = 0, CU_DEV_RESOURCE_TYPE_SM = 1 };
struct CUdevSmResource {
  unsigned smCount, minSmPartitionSize, smCoscheduledAlignment;
};
struct CUdevResource {
  CUdevResourceType type;
  int first;       // What follows is not for callers.
  unsigned splits; // Which split it came from; 0: none.
  CUdevSmResource sm;
};
using CUdevResourceDesc = struct CUdevResourceDesc_st*;
CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type);
CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned* groups,
                                     const CUdevResource* input, CUdevResource* remaining,
                                     unsigned flags, unsigned least);
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                   unsigned count);

using CUgreenCtx = struct CUgreenCtx_st*;
using CUstream = cudaStream_t;
inline constexpr unsigned CU_GREEN_CTX_DEFAULT_STREAM = 1;
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc description, CUdevice device,
                          unsigned flags);
/// A violation while a stream of it is there.
CUresult cuGreenCtxDestroy(CUgreenCtx context);
CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags, int priority);
