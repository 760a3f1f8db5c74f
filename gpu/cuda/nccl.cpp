#include "gpu/cuda/nccl.hpp"

#include "gpu/cuda/library.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <stdexcept>

namespace paceline::gpu::cuda {

Result<Nccl> Nccl::load() {
  const char* given = std::getenv("PACELINE_NCCL");
  const std::string name = given ? given : "libnccl.so.2";
  if (name == "none")
    return fail(ErrorCode::not_found, "NCCL is not loaded, for PACELINE_NCCL is none",
                "leave PACELINE_NCCL out: GPUs that share a model copy from each other now");
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return fail(given ? ErrorCode::invalid_argument : ErrorCode::not_found,
                fmt::format("NCCL does not load: {}", dlerror()),
                given ? "name the file of NCCL 2 in PACELINE_NCCL, or leave it out"
                      : "install libnccl2, or name its file in PACELINE_NCCL: without it GPUs that "
                        "share a model copy from each other");
  Nccl n;
  const bool whole = bind(library, "ncclGetVersion", n.get_version) &&
                     bind(library, "ncclGetErrorString", n.get_error_string) &&
                     bind(library, "ncclCommInitAll", n.comm_init_all) &&
                     bind(library, "ncclCommDestroy", n.comm_destroy) &&
                     bind(library, "ncclCommAbort", n.comm_abort) &&
                     bind(library, "ncclCommGetAsyncError", n.comm_get_async_error) &&
                     bind(library, "ncclGroupStart", n.group_start) &&
                     bind(library, "ncclGroupEnd", n.group_end) &&
                     bind(library, "ncclAllGather", n.all_gather);
  if (!whole)
    return fail(ErrorCode::unsupported, name + " is not NCCL as this build knows it",
                "use NCCL 2.4 or later, or name its file in PACELINE_NCCL");
  return n;
}

std::string Nccl::version() const {
  int number = 0;
  (void)get_version(&number); // It fails only for a null pointer.
  const int major = number < 10000 ? number / 1000 : number / 10000;
  const int rest = number - major * (number < 10000 ? 1000 : 10000);
  return fmt::format("{}.{}.{}", major, rest / 100, rest % 100);
}

void Nccl::check(Status status, const char* what) const {
  if (status != success)
    throw std::runtime_error(fmt::format("{}: {}", what, get_error_string(status)));
}

} // namespace paceline::gpu::cuda
