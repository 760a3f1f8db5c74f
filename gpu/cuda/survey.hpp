// Describes the CUDA installation: this build's toolkit, the driver, and each GPU with its links.
#pragma once

#include "gpu/cuda/version.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace paceline::gpu::cuda {

/// How one GPU reaches another.
struct Link {
  int to = 0;
  bool peer = false;    ///< Can read and write its memory directly.
  bool atomics = false; ///< Has native atomics over the link, as NVLink does.
  int rank = 0;         ///< Relative performance as the driver ranks it, 0 being the best.
};

struct Gpu {
  int index = 0; ///< Number in the name, "cuda:0".
  std::string model;
  std::string pci; ///< "0000:17:00.0"
  Version capability;
  int multiprocessors = 0;
  std::size_t memory_total = 0;
  std::size_t memory_free = 0;
  std::vector<Link> links;       ///< Links to all other GPUs.
  std::optional<Error> unusable; ///< Why it cannot be opened; none: it can.
};

struct Survey {
  std::optional<Version> toolkit; ///< This build's; none: built without CUDA.
  std::vector<int> architectures; ///< Architectures with kernels in this build: 80, 86, ...
  std::optional<Version> driver;  ///< The newest CUDA it supports; none: not installed.
  std::vector<Gpu> gpus;
  std::optional<Error> unusable;   ///< Why there is no GPU at all.
  std::optional<Version> cublas;   ///< cuBLASLt's, for the fast path of prompts.
  std::optional<Error> no_cublas;  ///< Why it does not load. Neither: there is no GPU for it.
  std::optional<std::string> nccl; ///< "2.27.3": NCCL's, for shards.
  std::optional<Error> no_nccl;    ///< Why it does not load.
};

/// Surveys anew at each call. Creates contexts on the GPUs, to ask for their free memory.
Survey survey();

} // namespace paceline::gpu::cuda
