// cuBLASLt. It is half a gigabyte that few need, so it is loaded when it is first asked for: one
// program runs with and without it.
#pragma once

#include "gpu/cuda/check.hpp"
#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <cublasLt.h>

#include <memory>
#include <vector>

namespace paceline::gpu::cuda {

/// The functions in use; their names are cuBLASLt's, less its own.
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

  /// The library of this build's major version: from where PACELINE_CUBLASLT says, or where the
  /// system's loader looks. It stays in the process.
  static Result<Cublas> load();

  /// Throws a std::runtime_error with the library's own words, unless all went well.
  void check(cublasStatus_t status, const char* what) const;
};

/// out = in * w^T, with `add` added to what was there, and a bias where there is one.
/// in: [rows, inputs] and w: [outputs, inputs], bf16, row-major and dense; out: [rows, outputs],
/// f32. Sums are of f32. Data are device memory, aligned to 256 bytes (out: to 16).
struct Gemm {
  const std::byte* w = nullptr;
  const std::byte* in = nullptr;
  Tensor out; ///< Its rows are the product's.
  int outputs = 0;
  int inputs = 0;
  const float* bias = nullptr; ///< [outputs], or null.
  bool add = false;
};

/// Threads: all members from any.
class CublasHandle {
public:
  /// For the calling thread's current device; throws std::runtime_error.
  explicit CublasHandle(const Cublas& library);

  struct Wish {
    int most = 1;                    ///< Algorithms.
    std::size_t workspace_bytes = 0; ///< That they may have.
    bool whole_sums = false; ///< One block takes all inputs of a sum: no split-K, and no stream-K,
                             ///< which is what would need a workspace.
  };
  using Algorithm = cublasLtMatmulAlgo_t;
  /// The fastest by cuBLASLt's own estimate first; maybe none.
  std::vector<Algorithm> algorithms(const Gemm& gemm, const Wish& wish) const;

  /// False: the algorithm does not take this product.
  bool run(cudaStream_t stream, const Gemm& gemm, const Algorithm& algorithm,
           std::byte* workspace = nullptr, std::size_t workspace_bytes = 0) const;

private:
  struct Problem;
  bool sums_whole(const cublasLtMatmulHeuristicResult_t& found) const;

  Cublas library_;
  std::unique_ptr<cublasLtContext, decltype(&cublasLtDestroy)> handle_;
};

} // namespace paceline::gpu::cuda
