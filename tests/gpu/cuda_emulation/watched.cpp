// What kernels call that are compiled with -fsanitize=thread: a compiler's instrumentation, which
// here tells the emulated GPU of each access. The functions' names and parameters are the
// compiler's.
#include "tests/gpu/cuda_emulation/block.hpp"

using cuda_emulation::Access;
using cuda_emulation::touch;

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
#define PACELINE_ACCESS(bytes)                                                                     \
  void __tsan_read##bytes(void* at) {                                                              \
    touch(at, bytes, Access::read, __builtin_return_address(0));                                   \
  }                                                                                                \
  void __tsan_write##bytes(void* at) {                                                             \
    touch(at, bytes, Access::write, __builtin_return_address(0));                                  \
  }

extern "C" {
PACELINE_ACCESS(1)
PACELINE_ACCESS(2)
PACELINE_ACCESS(4)
PACELINE_ACCESS(8)
PACELINE_ACCESS(16)
void __tsan_read_range(void* at, unsigned long bytes) {
  touch(at, bytes, Access::read, __builtin_return_address(0));
}
void __tsan_write_range(void* at, unsigned long bytes) {
  touch(at, bytes, Access::write, __builtin_return_address(0));
}
void __tsan_vptr_update(void** /*at*/, void* /*to*/) {} // The host's objects have these alone.
void __tsan_init() {
  cuda_emulation::watch_accesses();
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
