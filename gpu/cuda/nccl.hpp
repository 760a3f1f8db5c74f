// NCCL, by which GPUs exchange data. Few machines have it, so it is loaded on first use. Its
// functions are declared here, so that building needs no header of NCCL.
#pragma once

#include "gpu/cuda/handle.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::gpu::cuda {

/// The functions in use, as nccl.h of NCCL 2.4 and later declares them; their names are NCCL's
/// without the prefix.
struct Nccl {
  struct Comm;        ///< One GPU's end of a communicator.
  using Status = int; ///< ncclResult_t
  static constexpr Status success = 0;
  static constexpr int float32 = 7; ///< ncclFloat32 of ncclDataType_t.

  Status (*get_version)(int* version) = nullptr;
  const char* (*get_error_string)(Status) = nullptr;
  Status (*comm_init_all)(Comm** comms, int count, const int* devices) = nullptr;
  Status (*comm_destroy)(Comm*) = nullptr;
  Status (*comm_abort)(Comm*) = nullptr;
  Status (*comm_get_async_error)(Comm*, Status* error) = nullptr;
  Status (*group_start)() = nullptr;
  Status (*group_end)() = nullptr;
  Status (*all_gather)(const void* from, void* to, std::size_t count, int type, Comm*,
                       cudaStream_t) = nullptr;

  /// Loads the library from PACELINE_NCCL if set, otherwise libnccl.so.2 from where the loader
  /// looks. It stays in the process. Errors: not_found, if it is "none", or not set and none is
  /// found.
  static Result<Nccl> load();

  /// Returns e.g. "2.27.3".
  std::string version() const;
  /// Throws a std::runtime_error with the library's message, unless the status is success.
  void check(Status status, const char* what) const;
};

} // namespace paceline::gpu::cuda
