// NCCL, which brings GPUs together. Few machines have it, so it is loaded when it is first asked
// for. Its functions are declared here: no header of it is needed to build.
#pragma once

#include "gpu/cuda/handle.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::gpu::cuda {

/// The functions in use, as nccl.h of NCCL 2.4 and later declares them; their names are NCCL's,
/// less its own.
struct Nccl {
  struct Comm;        ///< One GPU's end of a communicator.
  using Status = int; ///< ncclResult_t
  static constexpr Status success = 0;
  static constexpr int float32 = 7; ///< Of ncclDataType_t.

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

  /// From where PACELINE_NCCL says, or libnccl.so.2 from where the system's loader looks. It stays
  /// in the process. Errors: not_found, where it says "none", or nothing and the loader finds none.
  static Result<Nccl> load();

  /// "2.27.3"
  std::string version() const;
  /// Throws a std::runtime_error with the library's own words, unless all went well.
  void check(Status status, const char* what) const;
};

} // namespace paceline::gpu::cuda
