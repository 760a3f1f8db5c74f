#include "gpu/cuda/cublas.hpp"

#include "gpu/cuda/library.hpp"

#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <stdexcept>
#include <type_traits>

namespace paceline::gpu::cuda {
namespace {

/// An object that cuBLASLt makes and destroys.
template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

} // namespace

Result<Cublas> Cublas::load() {
  const char* given = std::getenv("PACELINE_CUBLASLT");
  const std::string name = given ? given : fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return fail(ErrorCode::not_found, fmt::format("cuBLASLt does not load: {}", dlerror()),
                fmt::format("install libcublas of CUDA {}, name the file in PACELINE_CUBLASLT, or "
                            "leave EngineOptions::prefill out",
                            CUBLAS_VER_MAJOR));
  Cublas c;
  const bool whole = bind(library, "cublasLtGetVersion", c.get_version) &&
                     bind(library, "cublasLtGetStatusString", c.get_status_string) &&
                     bind(library, "cublasLtCreate", c.create) &&
                     bind(library, "cublasLtDestroy", c.destroy) &&
                     bind(library, "cublasLtMatmulDescCreate", c.desc_create) &&
                     bind(library, "cublasLtMatmulDescDestroy", c.desc_destroy) &&
                     bind(library, "cublasLtMatmulDescSetAttribute", c.desc_set) &&
                     bind(library, "cublasLtMatrixLayoutCreate", c.layout_create) &&
                     bind(library, "cublasLtMatrixLayoutDestroy", c.layout_destroy) &&
                     bind(library, "cublasLtMatmulPreferenceCreate", c.preference_create) &&
                     bind(library, "cublasLtMatmulPreferenceDestroy", c.preference_destroy) &&
                     bind(library, "cublasLtMatmulPreferenceSetAttribute", c.preference_set) &&
                     bind(library, "cublasLtMatmulAlgoGetHeuristic", c.heuristic) &&
                     bind(library, "cublasLtMatmulAlgoConfigGetAttribute", c.config_get) &&
                     bind(library, "cublasLtMatmul", c.matmul);
  if (!whole)
    return fail(ErrorCode::unsupported, name + " is not cuBLASLt as this build knows it",
                fmt::format("use the library of CUDA {}, or leave EngineOptions::prefill out",
                            CUBLAS_VER_MAJOR));
  return c;
}

void Cublas::check(cublasStatus_t status, const char* what) const {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(fmt::format("{}: {}", what, get_status_string(status)));
}

/// A product in cuBLASLt's terms. Its matrices are column-major, so each is the transpose of ours:
/// out^T = w in^T.
struct CublasHandle::Problem {
  Problem(const Cublas& library, const Gemm& g)
      : desc(nullptr, library.desc_destroy),
        w(layout(library, CUDA_R_16BF, g.inputs, g.outputs, g.inputs)),
        in(layout(library, CUDA_R_16BF, g.inputs, g.out.rows, g.inputs)),
        out(layout(library, CUDA_R_32F, g.outputs, g.out.rows, g.out.stride)) {
    cublasLtMatmulDesc_t made = nullptr;
    library.check(library.desc_create(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
    desc.reset(made);
    set(library, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (!g.bias)
      return;
    set(library, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(library, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
  }

  Owned<cublasLtMatmulDesc_t> desc;
  Owned<cublasLtMatrixLayout_t> w, in, out;

private:
  static Owned<cublasLtMatrixLayout_t> layout(const Cublas& library, cudaDataType_t type, int rows,
                                              int columns, int stride) {
    cublasLtMatrixLayout_t made = nullptr;
    library.check(
        library.layout_create(&made, type, std::uint64_t(rows), std::uint64_t(columns), stride),
        "a matrix");
    return {made, library.layout_destroy};
  }
  template <class Value>
  void set(const Cublas& library, cublasLtMatmulDescAttributes_t which, const Value& value) {
    library.check(library.desc_set(desc.get(), which, &value, sizeof value), "a product's option");
  }
};

CublasHandle::CublasHandle(const Cublas& library)
    : library_(library), handle_(nullptr, library.destroy) {
  cublasLtHandle_t made = nullptr;
  library_.check(library_.create(&made), "cublasLtCreate");
  handle_.reset(made);
}

bool CublasHandle::sums_whole(const cublasLtMatmulHeuristicResult_t& found) const {
  std::int32_t splits = 0;
  std::uint32_t reduction = 0;
  std::size_t size = 0;
  library_.check(library_.config_get(&found.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                     sizeof splits, &size),
                 "an algorithm's splits");
  library_.check(library_.config_get(&found.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
                                     sizeof reduction, &size),
                 "an algorithm's reduction");
  return splits <= 1 && reduction == CUBLASLT_REDUCTION_SCHEME_NONE && found.workspaceSize == 0;
}

std::vector<CublasHandle::Algorithm> CublasHandle::algorithms(const Gemm& gemm,
                                                              const Wish& wish) const {
  const Problem problem(library_, gemm);
  cublasLtMatmulPreference_t made = nullptr;
  library_.check(library_.preference_create(&made), "a preference");
  const Owned<cublasLtMatmulPreference_t> preference(made, library_.preference_destroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    library_.check(library_.preference_set(preference.get(), which, &value, sizeof value),
                   "a preference's value");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(wish.workspace_bytes));
  if (wish.whole_sums)
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t(CUBLASLT_REDUCTION_SCHEME_NONE));
  // A product may begin at any row of `out`.
  const auto alignment = std::uint32_t(rows_are_aligned(gemm.out) ? 16 : sizeof(float));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);

  std::vector<cublasLtMatmulHeuristicResult_t> found(std::size_t(wish.most));
  int count = 0;
  const cublasStatus_t status = library_.heuristic(
      handle_.get(), problem.desc.get(), problem.w.get(), problem.in.get(), problem.out.get(),
      problem.out.get(), preference.get(), wish.most, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED)
    return {};
  library_.check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Algorithm> algorithms;
  for (int i = 0; i < count; ++i)
    if (const auto& one = found[std::size_t(i)];
        one.state == CUBLAS_STATUS_SUCCESS && (!wish.whole_sums || sums_whole(one)))
      algorithms.push_back(one.algo);
  return algorithms;
}

bool CublasHandle::run(cudaStream_t stream, const Gemm& gemm, const Algorithm& algorithm,
                       std::byte* workspace, std::size_t workspace_bytes) const {
  const Problem problem(library_, gemm);
  const float one = 1;
  const float kept = gemm.add ? 1 : 0;
  const cublasStatus_t status =
      library_.matmul(handle_.get(), problem.desc.get(), &one, gemm.w, problem.w.get(), gemm.in,
                      problem.in.get(), &kept, gemm.out.data, problem.out.get(), gemm.out.data,
                      problem.out.get(), &algorithm, workspace, workspace_bytes, stream);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
    return false;
  library_.check(status, "cublasLtMatmul");
  return true;
}

} // namespace paceline::gpu::cuda
