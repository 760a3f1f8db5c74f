// Launching kernels on emulated streams.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <tuple>
#include <utility>

namespace cuda_emulation {

cudaError_t enqueue(const cudaLaunchConfig_t& config, const void* kernel,
                    std::function<void()> body);
cudaError_t allow_shared(const void* kernel, int bytes);

} // namespace cuda_emulation

// NOLINTBEGIN(readability-identifier-naming): CUDA's names.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  // Arguments are copied when the launch is called, as parameters of the kernel.
  return cuda_emulation::enqueue(
      *config, reinterpret_cast<const void*>(kernel),
      [kernel, copies = std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)] {
        std::apply(kernel, copies);
      });
}

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute, int value) {
  return cuda_emulation::allow_shared(reinterpret_cast<const void*>(kernel), value);
}
// NOLINTEND(readability-identifier-naming)
