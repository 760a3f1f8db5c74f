// cuBLASLt's products on an emulated GPU, as a library of its own that a program loads. It adds in
// an order that is not our kernels', and drops bits on the way: who has computed what shows in the
// results, even behind caches and activations that were rounded to bf16.
#include "base/bf16.hpp"
#include "tests/gpu/cuda_emulation/state.hpp"
#include <cublasLt.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

using cuda_emulation::CublasAlgorithm;
using paceline::base::bf16;

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t transposed_a = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, cols, ld;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes = 0;
};

namespace {

/// A product as its kernel gets it.
struct Work {
  const bf16* w;  ///< [outputs][ld_w]
  const bf16* in; ///< [rows][ld_in]
  float* out;     ///< [rows][ld_out]
  const float* bias;
  std::int64_t rows, outputs, inputs, ld_w, ld_in, ld_out;
  float beta;
  CublasAlgorithm algorithm;
};

/// Cuts a number to 16 bits of its fraction.
float cut(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~0x7Fu);
}

/// Sums from the last input to the first, in so many parts.
float sum_of(const Work& p, std::int64_t row, std::int64_t output, std::int64_t parts) {
  float whole = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    float sum = 0;
    for (std::int64_t k = p.inputs * (part + 1) / parts; k-- > p.inputs * part / parts;) {
      sum = std::fma(to_float(p.w[output * p.ld_w + k]), to_float(p.in[row * p.ld_in + k]), sum);
      if (k % 16 == 0)
        sum = cut(sum);
    }
    whole += sum;
  }
  return whole;
}

std::int64_t parts_of(const Work& p, std::int64_t row) {
  switch (p.algorithm) {
  case CublasAlgorithm::steady:
  case CublasAlgorithm::wants_many: return 1;
  case CublasAlgorithm::offered_for_few: return 3;
  case CublasAlgorithm::varies_with_rows: return p.rows > 64 ? 2 : 1;
  case CublasAlgorithm::varies_with_place: return row < 64 ? 1 : 2;
  case CublasAlgorithm::splits: return 2;
  }
  return 1;
}

void multiply(const Work& p) {
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t output = 0; output < p.outputs; ++output) {
      float& out = p.out[row * p.ld_out + output];
      const float sum = sum_of(p, row, output, parts_of(p, row));
      out = (p.beta == 0 ? sum : sum + p.beta * out) + (p.bias ? p.bias[output] : 0.0f);
    }
}

template <class Opaque>
cublasStatus_t destroy(Opaque* object) {
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

template <class Value>
cublasStatus_t take(Value& to, const void* value, std::size_t size) {
  if (size != sizeof to)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

bool fits(const cublasLtMatmulDescOpaque_t& desc, const cublasLtMatrixLayoutOpaque_t& a,
          const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& d) {
  return desc.transposed_a == CUBLAS_OP_T && a.type == CUDA_R_16BF && b.type == CUDA_R_16BF &&
         d.type == CUDA_R_32F && a.rows == b.rows && a.cols == d.rows && b.cols == d.cols &&
         a.ld >= a.rows && b.ld >= b.rows && d.ld >= d.rows &&
         (desc.epilogue == CUBLASLT_EPILOGUE_BIAS) == (desc.bias != nullptr);
}

bool aligned(const void* p, std::uintptr_t to) {
  return reinterpret_cast<std::uintptr_t>(p) % to == 0;
}

} // namespace

std::size_t cublasLtGetVersion() {
  return 130100;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "an emulated error";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy(handle);
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *desc = new cublasLtMatmulDescOpaque_t;
  return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS
                                                              : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return destroy(desc);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, std::size_t size) {
  switch (which) {
  case CUBLASLT_MATMUL_DESC_TRANSA: return take(desc->transposed_a, value, size);
  case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(desc->epilogue, value, size);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(desc->bias, value, size);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t{type, std::int64_t(rows), std::int64_t(cols), ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, std::size_t size) {
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return take(preference->workspace_bytes, value, size);
  std::uint32_t ignored = 0;
  return take(ignored, value, size);
}

/// Offers what the test said, whatever is preferred: who asks has to look.
// NOLINTNEXTLINE(readability-function-size): cuBLASLt's parameters.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  *count = 0;
  if (!fits(*desc, *a, *b, *d))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  cuda_emulation::State& s = cuda_emulation::state();
  const std::lock_guard lock(s.mutex);
  for (const CublasAlgorithm algorithm : s.options.cublas)
    if (*count < most && algorithm != (d->cols > 64 ? CublasAlgorithm::offered_for_few
                                                    : CublasAlgorithm::wants_many))
      results[(*count)++] = {{{std::uint64_t(algorithm)}}, 0, CUBLAS_STATUS_SUCCESS, 1, {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t which,
                                                    void* value, std::size_t size,
                                                    std::size_t* written) {
  const bool splits = CublasAlgorithm(algo->data[0]) == CublasAlgorithm::splits;
  const std::int32_t answer =
      which == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? (splits ? 2 : 1) : std::int32_t(splits);
  if (size != sizeof answer)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &answer, size);
  *written = size;
  return CUBLAS_STATUS_SUCCESS;
}

// NOLINTNEXTLINE(readability-function-size): cuBLASLt's parameters.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void*, std::size_t,
                              cudaStream_t stream) {
  if (!fits(*desc, *a_layout, *b_layout, *d_layout) || c != d || !aligned(a, 256) ||
      !aligned(b, 256) || !aligned(d, sizeof(float)) || *static_cast<const float*>(alpha) != 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (CublasAlgorithm(algo->data[0]) == CublasAlgorithm::wants_many && d_layout->cols <= 64)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const int device = cuda_emulation::device_of(stream);
  if (cuda_emulation::is_lost(device))
    return CUBLAS_STATUS_EXECUTION_FAILED;
  const Work work{static_cast<const bf16*>(a),
                  static_cast<const bf16*>(b),
                  static_cast<float*>(d),
                  desc->bias,
                  d_layout->cols,
                  d_layout->rows,
                  a_layout->rows,
                  a_layout->ld,
                  b_layout->ld,
                  d_layout->ld,
                  *static_cast<const float*>(beta),
                  CublasAlgorithm(algo->data[0])};
  cuda_emulation::append(stream, [work, device] {
    if (!cuda_emulation::is_lost(device))
      multiply(work);
  });
  return CUBLAS_STATUS_SUCCESS;
}
