// Functions of libraries that are loaded on first use.
#pragma once

#include <dlfcn.h>

namespace paceline::gpu::cuda {

/// Finds a function; returns whether `library` has it.
template <class Function>
bool bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

} // namespace paceline::gpu::cuda
