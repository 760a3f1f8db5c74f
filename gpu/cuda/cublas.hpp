// cuBLASLt. It is half a gigabyte that few need, so it is loaded on first use: one program runs
// with and without it.
#pragma once

#include "gpu/cuda/check.hpp"
#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::gpu::cuda {

/// The functions in use; their names are cuBLASLt's without the prefix.
struct Cublas {
  decltype(&cublasLtGetVersion) get_version = nullptr;
  decltype(&cublasLtGetStatusString) get_status_string = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) config_get = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;

  /// Loads the library of this build's major version: from PACELINE_CUBLASLT if set, otherwise from
  /// where the system's loader looks. It stays in the process.
  static Result<Cublas> load();

  /// Throws a std::runtime_error with the library's message, unless the status is success.
  void check(cublasStatus_t status, const char* what) const;
};

/// A product out = in * w^T, or += with `add`, plus the bias if there is one. in: [rows, inputs]
/// and w: [outputs, inputs], bf16, row-major and dense; out: [rows, outputs], f32. Sums are of f32.
/// Data are device memory, aligned to 256 bytes (out: to its numbers).
struct Gemm {
  const std::byte* w = nullptr;
  const std::byte* in = nullptr;
  Tensor out; ///< The product has as many rows.
  int outputs = 0;
  int inputs = 0;
  const float* bias = nullptr; ///< [outputs], or null.
  bool add = false;
};

/// Returns whether all rows begin at multiples of 16 bytes.
inline bool rows_are_aligned(const Tensor& out) {
  return out.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(out.data) % 16 == 0;
}

/// A handle of the library. All members may be called from any thread.
class CublasHandle {
public:
  /// Opens a handle for the calling thread's current device; throws std::runtime_error.
  explicit CublasHandle(const Cublas& library);

  struct Wish {
    int most = 1;                    ///< Number of algorithms.
    std::size_t workspace_bytes = 0; ///< Workspace that they may use.
    bool whole_sums = false; ///< One block takes all inputs of a sum: no split-K, and no stream-K,
                             ///< which is what would need a workspace.
  };
  using Algorithm = cublasLtMatmulAlgo_t;
  /// Returns algorithms, the fastest by cuBLASLt's own estimate first; may be empty.
  std::vector<Algorithm> algorithms(const Gemm& gemm, const Wish& wish) const;

  /// Runs a product; returns false if the algorithm does not support it.
  bool run(cudaStream_t stream, const Gemm& gemm, const Algorithm& algorithm,
           std::byte* workspace = nullptr, std::size_t workspace_bytes = 0) const;

private:
  struct Problem;
  bool sums_whole(const cublasLtMatmulHeuristicResult_t& found) const;

  Cublas library_;
  std::unique_ptr<cublasLtContext, decltype(&cublasLtDestroy)> handle_;
};

} // namespace paceline::gpu::cuda
